package deploy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaitsNameTheInputFromOutside: the task of the groups waits for what tasks of the pipeline
// write, and these for a partition of the table that has no records.
func TestWaitsNameTheInputFromOutside(t *testing.T) {
	st := Status{
		Sources: []SourceStatus{{ID: "orders", Topic: "shop-orders", IdleAfterSeconds: 2}},
		Tasks: []TaskStatus{
			{ID: "orders.0", Phase: "running", Inputs: []InputStatus{
				{Topic: "shop-orders", Partition: 0, Awaited: true, Watermark: time.Unix(9, 0)}}},
			{ID: "orders.1", Phase: "running", Inputs: []InputStatus{
				{Topic: "shop-orders", Partition: 1, Awaited: true, Seen: time.Unix(7, 0)}}},
			{ID: "groups.0", Phase: "running", Held: true,
				Steps: []StepStatus{{ID: "paid.group"}, {ID: "paid"}},
				Inputs: []InputStatus{{Topic: "shop-groups", Awaited: true,
					Writers: []string{"orders.1", "groups.0"}}}},
			{ID: "groups.1", Phase: "stopped", Held: true, Steps: []StepStatus{{ID: "old"}},
				Inputs: []InputStatus{{Topic: "shop-groups", Partition: 1, Awaited: true}}},
		}}
	require.Equal(t, []Wait{{Topic: "shop-orders", Partition: 1, Source: "orders",
		IdleAfterSeconds: 2, Seen: time.Unix(7, 0), Steps: []string{"paid"}}}, st.Sum().Waits)
}
