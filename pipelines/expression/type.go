package expression

import (
	"reflect"
	"time"

	"github.com/expr-lang/expr/checker/nature"
	"github.com/expr-lang/expr/types"
)

// Kind is the kind of a Type.
type Kind uint8

// The kinds of a Type. KindAny is "not known"; nothing is checked against it.
const (
	KindAny Kind = iota
	KindString
	KindInt
	KindFloat
	KindBool
	KindTime
	KindDuration
	KindBytes
	KindList
	KindObject
	KindNull
)

// String is the kind as a user writes or reads it.
func (k Kind) String() string {
	return [...]string{"any", "string", "int64", "float64", "bool", "time", "duration", "bytes",
		"list", "object", "null"}[k]
}

// Type is what is known about a value before it is there.
type Type struct {
	Kind     Kind
	Nullable bool
	Item     *Type   // of a list
	Fields   []Field // of an object, in declared order
	// Open is true for an object that may have fields beyond Fields.
	Open bool
}

// Field is one field of an object type.
type Field struct {
	Name string
	Type *Type
}

// Any is the type of which nothing is known.
var Any = &Type{Kind: KindAny}

// Field returns the type of a field of an object, or nil.
func (t *Type) Field(name string) *Type {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return t.Fields[i].Type
		}
	}
	return nil
}

// String is the type as written in a schema.
func (t *Type) String() string {
	s := t.Kind.String()
	if t.Kind == KindList && t.Item != nil {
		s = "[" + t.Item.String() + "]"
	}
	if t.Nullable {
		s += "|null"
	}
	return s
}

// forChecker is the type as the expression checker knows it.
func (t *Type) forChecker() types.Type {
	switch t.Kind {
	case KindString:
		return types.String
	case KindInt:
		return types.Int64
	case KindFloat:
		return types.Float64
	case KindBool:
		return types.Bool
	case KindTime:
		return types.TypeOf(time.Time{})
	case KindDuration:
		return types.TypeOf(time.Duration(0))
	case KindBytes:
		return types.TypeOf([]byte(nil))
	case KindList:
		if t.Item == nil {
			return types.Array(types.Any)
		}
		return types.Array(t.Item.forChecker())
	case KindObject:
		m := types.Map{}
		for _, f := range t.Fields {
			m[f.Name] = f.Type.forChecker()
		}
		if t.Open {
			m[types.Extra] = types.Any
		}
		return m
	}
	return types.Any
}

// fromChecker is what the checker found out about an expression.
func fromChecker(n *nature.Nature) *Type {
	t := n.Type
	switch {
	case n.Nil:
		return &Type{Kind: KindNull, Nullable: true}
	case t == nil:
		return Any
	case t == reflect.TypeFor[time.Time]():
		return &Type{Kind: KindTime}
	case t == reflect.TypeFor[time.Duration]():
		return &Type{Kind: KindDuration}
	case t == reflect.TypeFor[[]byte]():
		return &Type{Kind: KindBytes}
	}
	switch t.Kind() {
	case reflect.String:
		return &Type{Kind: KindString}
	case reflect.Bool:
		return &Type{Kind: KindBool}
	case reflect.Float32, reflect.Float64:
		return &Type{Kind: KindFloat}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Type{Kind: KindInt}
	case reflect.Slice, reflect.Array:
		if n.TypeData != nil && n.Ref != nil {
			return &Type{Kind: KindList, Item: fromChecker(n.Ref)}
		}
		return &Type{Kind: KindList}
	case reflect.Map:
		return &Type{Kind: KindObject, Open: true}
	}
	return Any
}
