package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/zeebo/xxh3"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// Pair is an output of the live pipeline and its shadow.
type Pair struct {
	Sink   string `json:"sink"`
	Live   string `json:"live"`
	Shadow string `json:"shadow"`
}

// Expectation tells which live records the shadow must have.
type Expectation struct {
	// FromStart: the range began where the inputs begin, so nothing may precede the shadow's records.
	FromStart bool
	// ToEnd: the range ended where the inputs end now, so nothing may follow them.
	ToEnd bool
}

// Report is the result of a comparison.
type Report struct {
	Equal bool `json:"equal"`
	// EqualSoFar: live has all that it has like the shadow, which has more: a replay ends its
	// input, upon which all windows close, while the live pipeline waits for time to pass.
	EqualSoFar bool           `json:"equal_so_far"`
	Outputs    []OutputReport `json:"outputs"`
	// FirstDifference is the first record that differs, in the order of outputs and partitions.
	FirstDifference *Difference `json:"first_difference,omitempty"`
	// FirstToCome is the first record that live has not come to, likewise.
	FirstToCome *Difference `json:"first_to_come,omitempty"`
}

// OutputReport is the result for one output topic.
type OutputReport struct {
	Pair
	Equal      bool `json:"equal"`
	EqualSoFar bool `json:"equal_so_far"` // see Report
	// LiveRecords and ShadowRecords count what was read; Compared are the pairs found equal.
	LiveRecords   int64 `json:"live_records"`
	ShadowRecords int64 `json:"shadow_records"`
	Compared      int64 `json:"compared"`
	// Before and After are live records that lie outside the replayed range.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	// ToCome are records of the shadow that live has not come to.
	ToCome int64 `json:"to_come"`
}

// Difference is one place where live and shadow are not the same, or where live ends.
type Difference struct {
	Live      string  `json:"live"`
	Shadow    string  `json:"shadow"`
	Partition int32   `json:"partition"`
	Reason    string  `json:"reason"`
	LiveAt    *Sample `json:"live_record,omitempty"`
	ShadowAt  *Sample `json:"shadow_record,omitempty"`

	liveOffset, shadowOffset int64
	// toCome: all of live is equal, and ends here.
	toCome bool
}

// Sample shows a differing record to people.
type Sample struct {
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"ts"`
	Key       string `json:"key"`
	Value     string `json:"value"`
}

// Verify compares every pair.
func Verify(
	ctx context.Context, connect deploy.Connect, pairs []Pair, want Expectation,
) (Report, error) {
	report := Report{Equal: true}
	for _, pair := range pairs {
		out, diff, err := compareTopics(ctx, connect, pair, want)
		if err != nil {
			return Report{}, err
		}
		report.Outputs = append(report.Outputs, out)
		report.Equal = report.Equal && out.Equal
		first := &report.FirstDifference
		if diff != nil && diff.toCome {
			first = &report.FirstToCome
		}
		if diff != nil && *first == nil {
			if err := diff.sample(ctx, connect); err != nil {
				return Report{}, err
			}
			*first = diff
		}
	}
	report.EqualSoFar = report.FirstDifference == nil && report.FirstToCome != nil
	return report, nil
}

func compareTopics(
	ctx context.Context, connect deploy.Connect, pair Pair, want Expectation,
) (OutputReport, *Difference, error) {
	out := OutputReport{Pair: pair, Equal: true}
	live, err := fingerprints(ctx, connect, pair.Live)
	if err != nil {
		return out, nil, err
	}
	shadow, err := fingerprints(ctx, connect, pair.Shadow)
	if err != nil {
		return out, nil, err
	}
	var first *Difference
	for p := range int32(max(width(live), width(shadow))) {
		out.LiveRecords += int64(len(live[p]))
		out.ShadowRecords += int64(len(shadow[p]))
		diff := comparePartition(&out, live[p], shadow[p], want)
		if diff == nil {
			continue
		}
		out.Equal = false
		if first == nil || first.toCome && !diff.toCome {
			diff.Live, diff.Shadow, diff.Partition = pair.Live, pair.Shadow, p
			first = diff
		}
	}
	out.EqualSoFar = first != nil && first.toCome
	return out, first, nil
}

// width is one more than the highest partition that has records.
func width(imprints map[int32][]imprint) int {
	n := 0
	for p := range imprints {
		n = max(n, int(p)+1)
	}
	return n
}

// comparePartition looks for the shadow as an unbroken run within live.
func comparePartition(out *OutputReport, live, shadow []imprint, want Expectation) *Difference {
	at := find(live, shadow, want)
	if at < 0 {
		diff := firstDifference(live, shadow, want)
		if diff.toCome {
			equal := slices.IndexFunc(shadow, func(s imprint) bool { return s.offset == diff.shadowOffset })
			out.Compared += int64(equal)
			out.Before += int64(len(live) - equal)
			out.ToCome += int64(len(shadow) - equal)
		}
		return diff
	}
	before, after := at, len(live)-at-len(shadow)
	if len(shadow) == 0 && !want.FromStart {
		before, after = len(live), 0
	}
	out.Before += int64(before)
	out.After += int64(after)
	out.Compared += int64(len(shadow))
	switch {
	case want.FromStart && before > 0:
		return missing("the shadow lacks this first record", live[0])
	case want.FromStart && want.ToEnd && after > 0:
		return missing("the shadow lacks this record at its end", live[at+len(shadow)])
	}
	return nil
}

func missing(reason string, p imprint) *Difference {
	return &Difference{Reason: reason, liveOffset: p.offset, shadowOffset: -1}
}

// find gives the index in live at which all of shadow follows, or -1. A replay from the start is
// looked for at the start and one to the end at the end first, because equal records may repeat.
func find(live, shadow []imprint, want Expectation) int {
	if len(shadow) > len(live) {
		return -1
	}
	if want.FromStart && matches(live, shadow) {
		return 0
	}
	if last := len(live) - len(shadow); want.ToEnd && matches(live[last:], shadow) {
		return last
	}
	if want.FromStart {
		return -1
	}
	return search(live, shadow)
}

func matches(live, shadow []imprint) bool {
	for i, s := range shadow {
		if live[i].hash != s.hash {
			return false
		}
	}
	return true
}

// search is Knuth, Morris and Pratt's: linear even where records repeat.
func search(live, shadow []imprint) int {
	if len(shadow) == 0 {
		return 0
	}
	fail := make([]int, len(shadow))
	for i, k := 1, 0; i < len(shadow); i++ {
		for k > 0 && shadow[i].hash != shadow[k].hash {
			k = fail[k-1]
		}
		if shadow[i].hash == shadow[k].hash {
			k++
		}
		fail[i] = k
	}
	k := 0
	for i, l := range live {
		for k > 0 && l.hash != shadow[k].hash {
			k = fail[k-1]
		}
		if l.hash == shadow[k].hash {
			k++
		}
		if k == len(shadow) {
			return i + 1 - k
		}
	}
	return -1
}

// firstDifference lines both up at the shadow's first record, or at the start where the range began
// there, and gives the first pair that differs.
func firstDifference(live, shadow []imprint, want Expectation) *Difference {
	start := 0
	if !want.FromStart {
		start = indexOf(live, shadow[0].hash)
		if start < 0 {
			return &Difference{Reason: "the live output has no such record",
				liveOffset: -1, shadowOffset: shadow[0].offset}
		}
	}
	for i, s := range shadow {
		if start+i >= len(live) {
			return &Difference{Reason: "the live output has not come to this record", toCome: true,
				liveOffset: -1, shadowOffset: s.offset}
		}
		if l := live[start+i]; l.hash != s.hash {
			return &Difference{Reason: "the records differ",
				liveOffset: l.offset, shadowOffset: s.offset}
		}
	}
	return missing("the shadow ends before this record", live[min(start+len(shadow), len(live)-1)])
}

func indexOf(live []imprint, hash xxh3.Uint128) int {
	for i, l := range live {
		if l.hash == hash {
			return i
		}
	}
	return -1
}

// sample reads the differing records again to show them.
func (d *Difference) sample(ctx context.Context, connect deploy.Connect) error {
	var err error
	if d.LiveAt, err = sampleAt(ctx, connect, d.Live, d.Partition, d.liveOffset); err != nil {
		return err
	}
	d.ShadowAt, err = sampleAt(ctx, connect, d.Shadow, d.Partition, d.shadowOffset)
	return err
}

func sampleAt(
	ctx context.Context, connect deploy.Connect, topic string, partition int32, offset int64,
) (*Sample, error) {
	if offset < 0 {
		return nil, nil
	}
	var found *Sample
	err := scan(ctx, connect, topic, func(r *kgo.Record) bool {
		if r.Partition == partition && r.Offset == offset {
			found = &Sample{r.Offset, r.Timestamp.UnixMilli(), string(r.Key), string(r.Value)}
		}
		return found == nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s-%d at %d: %w", topic, partition, offset, err)
	}
	return found, nil
}
