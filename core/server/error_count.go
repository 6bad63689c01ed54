package server

import (
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errorPlan finds the error codes in the answers of one type.
type errorPlan struct {
	// codes are the fields that hold a code; lists those that hold structs with some.
	codes []int
	lists []errorList
}

// errorList is a slice, or one struct, with codes in it.
type errorList struct {
	field int
	slice bool
	plan  *errorPlan
}

// errorPlans has the plans made so far, by the type of the answer.
var errorPlans sync.Map

// countErrors counts the error codes of an answer, wherever they stand in it.
func (a *apiCounts) countErrors(resp kmsg.Response) {
	v := reflect.ValueOf(resp).Elem()
	plan, ok := errorPlans.Load(v.Type())
	if !ok {
		plan, _ = errorPlans.LoadOrStore(v.Type(), planErrors(v.Type()))
	}
	plan.(*errorPlan).count(a, v)
}

// planErrors looks for the codes in a type; nil if there are none.
func planErrors(t reflect.Type) *errorPlan {
	p := new(errorPlan)
	for i := range t.NumField() {
		f := t.Field(i)
		kind, inner := f.Type.Kind(), f.Type
		if kind == reflect.Slice {
			inner = f.Type.Elem()
		}
		switch {
		case f.Name == "ErrorCode" && kind == reflect.Int16:
			p.codes = append(p.codes, i)
		case inner.Kind() == reflect.Struct && f.IsExported():
			if below := planErrors(inner); below != nil {
				p.lists = append(p.lists, errorList{i, kind == reflect.Slice, below})
			}
		}
	}
	if p.codes == nil && p.lists == nil {
		return nil
	}
	return p
}

// count counts what is in v.
func (p *errorPlan) count(a *apiCounts, v reflect.Value) {
	if p == nil {
		return
	}
	for _, i := range p.codes {
		a.failed(int16(v.Field(i).Int()))
	}
	for _, l := range p.lists {
		f := v.Field(l.field)
		if !l.slice {
			l.plan.count(a, f)
			continue
		}
		for i := range f.Len() {
			l.plan.count(a, f.Index(i))
		}
	}
}
