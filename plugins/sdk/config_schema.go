package sdk

import (
	"encoding/json"
)

// jsonSchema renders s as JSON Schema 2020-12.
func jsonSchema(s *shape) []byte {
	m := schemaOf(s)
	m["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	b, err := json.Marshal(m) // maps marshal in key order, so the bytes are stable
	if err != nil {
		return nil // cannot be: the map holds only what JSON has
	}
	return b
}

func schemaOf(s *shape) map[string]any {
	switch s.kind {
	case kindString:
		return map[string]any{"type": "string"}
	case kindDuration:
		return map[string]any{"type": "string", "format": "go-duration"}
	case kindBool:
		return map[string]any{"type": "boolean"}
	case kindInt:
		return map[string]any{"type": "integer"}
	case kindFloat:
		return map[string]any{"type": "number"}
	case kindList:
		return map[string]any{"type": "array", "items": schemaOf(s.elem)}
	case kindMap:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(s.elem)}
	case kindObject:
		return objectSchema(s)
	}
	return map[string]any{}
}

func objectSchema(s *shape) map[string]any {
	properties := make(map[string]any, len(s.fields))
	var required []string
	for i := range s.fields {
		f := &s.fields[i]
		p := schemaOf(f.shape)
		if f.doc != "" {
			p["description"] = f.doc
		}
		if f.def != nil {
			p["default"] = f.def
		}
		if f.enum != nil {
			p["enum"] = f.enum
		}
		addLimits(p, f)
		properties[f.name] = p
		if f.required {
			required = append(required, f.name)
		}
	}
	m := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		m["required"] = required
	}
	return m
}

func addLimits(p map[string]any, f *field) {
	low, high := "minimum", "maximum"
	switch f.shape.kind {
	case kindString:
		low, high = "minLength", "maxLength"
	case kindList:
		low, high = "minItems", "maxItems"
	case kindDuration, kindBool, kindMap, kindObject, kindAny:
		return // JSON Schema cannot say it; the plugin checks
	}
	if f.min != nil {
		p[low] = *f.min
	}
	if f.max != nil {
		p[high] = *f.max
	}
}
