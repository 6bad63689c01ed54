package task

import (
	"context"
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// ChangelogTopic returns the topic that holds the state and the commits of a sub-topology: one
// partition per task.
func ChangelogTopic(app, sub string) string { return app + "-" + sub + "-changelog" }

// firstStep is how many records before the end the search for the last commit begins with.
const firstStep = 256

// found is a commit record in a log.
type found struct {
	offset int64
	value  []byte
}

// findLast looks for the last record of a partition that is a commit: it reads the tail, and a
// longer tail as long as there is none. ok is false when [r.Start, r.End) has none.
func findLast(ctx context.Context, c client.Consumer, tp client.TopicPartition, r client.Range,
	isCommit func(key []byte) bool,
) (f found, ok bool, err error) {
	end := r.End
	for step := int64(firstStep); end > r.Start; step *= 8 {
		from := max(r.Start, end-step)
		err := client.ReadRange(ctx, c, tp, from, end, func(records []record.Record) error {
			for i := range records {
				if isCommit(records[i].Key) {
					f, ok = found{records[i].Offset, records[i].Value}, true
				}
			}
			return nil
		})
		if err != nil {
			return found{}, false, fmt.Errorf("look for the last commit: %w", err)
		}
		if ok {
			return f, true, nil
		}
		end = from
	}
	return found{}, false, nil
}

// slab hands out copies of small byte slices from larger allocations.
type slab struct{ free []byte }

const slabBytes = 64 << 10

// copy returns a copy of b that lives as long as anything of its allocation; nil stays nil.
func (s *slab) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) == 0 { // and not nil, which a changelog takes for a deletion
		return []byte{}
	}
	if len(b) > slabBytes/4 {
		return append([]byte{}, b...)
	}
	if len(b) > len(s.free) {
		s.free = make([]byte, slabBytes)
	}
	out := s.free[:len(b):len(b)]
	copy(out, b)
	s.free = s.free[len(b):]
	return out
}
