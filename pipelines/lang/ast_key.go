package lang

// KeyBy gives records a new key. It is written as the expression alone, or as a mapping.
type KeyBy struct {
	Key     Expr
	NullKey Text
	Pos     Pos
}

var nullKeyWords = []string{"dlq", "drop", "round_robin"}

func (k *KeyBy) decode(d *decoder, n *node, f *field) {
	k.Pos = n.pos
	if n.kind != kindMapping {
		k.Key.decode(d, n, f)
		return
	}
	for _, p := range n.pairs {
		switch p.key.value {
		case "key":
			k.Key.decode(d, p.value, &field{key: "key"})
		case "null_key":
			k.NullKey.decode(d, p.value, &field{key: "null_key", enum: nullKeyWords})
		default:
			d.unknownKey(p.key, "key_by", []field{{key: "key"}, {key: "null_key"}})
		}
	}
	if !n.has("key") {
		d.report(n.pos, 1, CodeMissingKey, "key_by needs key:", "add  key: value.field")
	}
}

func (k *KeyBy) schema(g *schemaGen, _ *field) map[string]any {
	expr := (&Expr{}).schema(g, &field{})
	return map[string]any{"anyOf": []any{expr,
		map[string]any{"type": "object", "required": []any{"key"}, "additionalProperties": false,
			"properties": map[string]any{"key": expr,
				"null_key": map[string]any{"enum": toAny(nullKeyWords)}}}}}
}
