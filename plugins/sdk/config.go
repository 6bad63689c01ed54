package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// kind is what a configuration value may be.
type kind int

const (
	kindAny kind = iota
	kindString
	kindBool
	kindInt
	kindFloat
	kindDuration
	kindList
	kindMap
	kindObject
)

var kindNames = map[kind]string{
	kindString: "a string", kindBool: "true or false", kindInt: "an integer", kindFloat: "a number",
	kindDuration: `a duration such as "1m30s"`, kindList: "a list", kindMap: "an object",
	kindObject: "an object",
}

// shape is a configuration type, made from a Go type and its tags.
type shape struct {
	kind     kind
	fields   []field // kindObject, in their order
	elem     *shape  // kindList, kindMap
	unsigned bool    // kindInt
}

// field is one named value of an object.
type field struct {
	name     string
	shape    *shape
	doc      string
	def      any // as JSON would decode it, nil = none
	required bool
	min, max *float64
	enum     []string
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// shapeOf reads a Go type. Its error is a mistake of the plugin's author.
func shapeOf(t reflect.Type) (*shape, error) {
	switch {
	case t == durationType:
		return &shape{kind: kindDuration}, nil
	case t == rawType:
		return &shape{kind: kindAny}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Interface:
		return &shape{kind: kindAny}, nil
	case reflect.String:
		return &shape{kind: kindString}, nil
	case reflect.Bool:
		return &shape{kind: kindBool}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &shape{kind: kindInt}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &shape{kind: kindInt, unsigned: true}, nil
	case reflect.Float32, reflect.Float64:
		return &shape{kind: kindFloat}, nil
	case reflect.Slice, reflect.Map:
		k := kindList
		if t.Kind() == reflect.Map {
			if t.Key().Kind() != reflect.String {
				return nil, fmt.Errorf("type %s: map keys must be strings", t)
			}
			k = kindMap
		}
		elem, err := shapeOf(t.Elem())
		return &shape{kind: k, elem: elem}, err
	case reflect.Struct:
		return structShape(t)
	}
	return nil, fmt.Errorf("type %s cannot be in a configuration", t)
}

func structShape(t reflect.Type) (*shape, error) {
	s := &shape{kind: kindObject}
	var errs []error
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case name == "-" || !sf.IsExported() && !sf.Anonymous:
			continue
		case sf.Anonymous && name == "":
			inner, err := shapeOf(sf.Type)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			s.fields = append(s.fields, inner.fields...)
			continue
		case name == "":
			name = sf.Name
		}
		f, err := fieldOf(name, sf)
		if err != nil {
			errs = append(errs, fmt.Errorf("field %s of %s: %w", sf.Name, t, err))
			continue
		}
		s.fields = append(s.fields, f)
	}
	return s, errors.Join(errs...)
}

func fieldOf(name string, sf reflect.StructField) (field, error) {
	f := field{name: name, doc: sf.Tag.Get("doc")}
	var err error
	if f.shape, err = shapeOf(sf.Type); err != nil {
		return f, err
	}
	if f.required, err = boolTag(sf, "required"); err != nil {
		return f, err
	}
	if f.min, err = numberTag(sf, "min", f.shape.kind); err != nil {
		return f, err
	}
	if f.max, err = numberTag(sf, "max", f.shape.kind); err != nil {
		return f, err
	}
	if v := sf.Tag.Get("enum"); v != "" {
		f.enum = strings.Split(v, ",")
	}
	if v, ok := sf.Tag.Lookup("default"); ok {
		if f.def, err = parseDefault(f.shape, v); err != nil {
			return f, fmt.Errorf("default %q: %w", v, err)
		}
		if found := checkField(&f, f.def, "/"+name); len(found) > 0 {
			return f, fmt.Errorf("default %q: %s", v, found[0].Message)
		}
	}
	return f, nil
}

func boolTag(sf reflect.StructField, tag string) (bool, error) {
	v, ok := sf.Tag.Lookup(tag)
	if !ok {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("tag %s:%q is neither true nor false", tag, v)
	}
	return b, nil
}

func numberTag(sf reflect.StructField, tag string, k kind) (*float64, error) {
	v, ok := sf.Tag.Lookup(tag)
	if !ok {
		return nil, nil
	}
	if k == kindDuration {
		d, err := time.ParseDuration(v)
		n := float64(d)
		return &n, err
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil {
		return nil, fmt.Errorf("tag %s:%q is not a number", tag, v)
	}
	return &n, nil
}

// parseDefault reads the text of a default tag: JSON for lists and maps, the bare text otherwise.
func parseDefault(s *shape, text string) (any, error) {
	switch s.kind {
	case kindString, kindDuration:
		return text, nil
	}
	return decodeJSON([]byte(text))
}

// decodeJSON decodes one JSON value and keeps numbers as json.Number.
func decodeJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// decodeConfig checks raw against s, fills defaults in and decodes the result into a C. An
// empty raw is an empty object. The findings are complete; with one of severity error the
// config is not usable.
func decodeConfig[C any](s *shape, raw []byte) (config C, found []*pluginpb.Diagnostic) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return config, []*pluginpb.Diagnostic{{Message: "configuration is not JSON: " + err.Error()}}
	}
	v, found = check(s, v, "")
	if len(found) > 0 {
		return config, found
	}
	full, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(full, &config)
	}
	if err != nil {
		return config, []*pluginpb.Diagnostic{{Message: "configuration: " + err.Error()}}
	}
	if c, ok := any(&config).(interface{ Validate() error }); ok {
		found = diagnostics(c.Validate())
	}
	return config, found
}

// diagnostics flattens joined errors.
func diagnostics(err error) []*pluginpb.Diagnostic {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*pluginpb.Diagnostic
		for _, e := range many.Unwrap() {
			all = append(all, diagnostics(e)...)
		}
		return all
	}
	var at *pointerError
	if errors.As(err, &at) {
		return []*pluginpb.Diagnostic{{Pointer: at.pointer, Message: at.message}}
	}
	return []*pluginpb.Diagnostic{{Message: err.Error()}}
}
