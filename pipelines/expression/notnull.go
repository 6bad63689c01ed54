package expression

import (
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// NotNull are the paths that are not null where a condition holds: those that it compares with nil
// by itself, or in a part that must hold, too.
func NotNull(condition string) []string {
	tree, err := parser.Parse(condition)
	if err != nil {
		return nil
	}
	var paths []string
	var walk func(node ast.Node)
	walk = func(node ast.Node) {
		b, ok := node.(*ast.BinaryNode)
		if !ok {
			return
		}
		switch b.Operator {
		case "and", "&&":
			walk(b.Left)
			walk(b.Right)
		case "!=":
			for _, pair := range [][2]ast.Node{{b.Left, b.Right}, {b.Right, b.Left}} {
				if _, isNil := pair[1].(*ast.NilNode); isNil && pathOf(pair[0]) != nil {
					paths = append(paths, pathText(pair[0]))
				}
			}
		}
	}
	walk(tree.Node)
	return paths
}
