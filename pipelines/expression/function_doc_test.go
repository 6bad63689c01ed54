package expression

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamplesOfFunctionsAreTrue runs the reference.
func TestExamplesOfFunctionsAreTrue(t *testing.T) {
	for _, f := range AllFunctions() {
		if f.Example == "" {
			require.Equal(t, "processing_time", f.Name, "every function has an example")
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			got, err := eval(t, untyped(), f.Example, "{}")
			require.NoError(t, err, f.Example)
			require.Equal(t, f.Result, got, f.Example)
		})
	}
}

// TestEveryFunctionIsInTheReference: what a did-you-mean offers is explained.
func TestEveryFunctionIsInTheReference(t *testing.T) {
	var known []string
	for _, f := range AllFunctions() {
		known = append(known, f.Name)
	}
	require.ElementsMatch(t, functionNames(), known)
}
