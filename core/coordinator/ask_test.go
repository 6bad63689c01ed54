package coordinator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
)

// The numbers are those of Java's String.hashCode, worked out by hand: "a" is 97, "ab" 97*31+98.
// "polygenelubricants" is known for the smallest integer, the other name has -959 806 496.
func TestPartitionIsThatOfJavasHash(t *testing.T) {
	for name, want := range map[string]int32{
		"": 0, "a": 97 % 50, "ab": 3105 % 50, "polygenelubricants": 0, "my-transactional-id": 46,
		// One character outside the basic plane: the surrogates d83d and de00.
		"\U0001F600": (0xd83d*31 + 0xde00) % 50,
	} {
		require.Equal(t, want, coordinator.PartitionFor(name, 50), name)
	}
}
