package output

import (
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// writeYAML encodes v as its JSON would look, in YAML's block style. JSON is a subset of YAML, so
// reading the JSON into nodes keeps the order and names of the json tags and the exact integers.
func writeYAML(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	text, err := yamlOf(data)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func yamlOf(data []byte) ([]byte, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	blockStyle(&node)
	text, err := yaml.Marshal(&node)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return text, nil
}

// YAMLItem gives a JSON object as one item of a YAML list, so that a list can be written piece by
// piece.
func YAMLItem(object []byte) ([]byte, error) {
	list := append([]byte{'['}, object...)
	return yamlOf(append(list, ']'))
}

func blockStyle(n *yaml.Node) {
	if n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode {
		n.Style &^= yaml.FlowStyle
		if len(n.Content) == 0 {
			n.Style |= yaml.FlowStyle
		}
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			child.Style = 0
		}
		blockStyle(child)
	}
}
