package host

import (
	"fmt"
	"sort"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Results are the answers for one batch: for each input its outputs, or its error.
type Results struct {
	records []Record
	ends    []int         // ends[i] = end of the outputs of input i in records
	errs    []RecordError // by Index
	frames  [][]byte      // what records alias
}

// Len is the number of inputs.
func (r *Results) Len() int { return len(r.ends) }

// Outputs returns what input i became, in order. It aliases memory of r; see Release.
func (r *Results) Outputs(i int) []Record {
	from := 0
	if i > 0 {
		from = r.ends[i-1]
	}
	return r.records[from:r.ends[i]:r.ends[i]]
}

// All returns the outputs of all inputs, in the order of the inputs.
func (r *Results) All() []Record { return r.records }

// Err returns the error of input i, nil when it has none.
func (r *Results) Err(i int) *RecordError {
	k := sort.Search(len(r.errs), func(k int) bool { return r.errs[k].Index >= i })
	if k < len(r.errs) && r.errs[k].Index == i {
		return &r.errs[k]
	}
	return nil
}

// Errors returns all errors, by index.
func (r *Results) Errors() []RecordError { return r.errs }

// Release recycles the memory the outputs alias: they must not be used any more. Calling it is
// optional.
func (r *Results) Release() {
	for _, f := range r.frames {
		pluginpb.PutBuffer(f)
	}
	r.frames, r.records = nil, nil
}

// add appends the results of the inputs that follow.
func (r *Results) add(next *Results) {
	inputs, outputs := len(r.ends), len(r.records)
	r.records = append(r.records, next.records...)
	for _, e := range next.ends {
		r.ends = append(r.ends, outputs+e)
	}
	for _, e := range next.errs {
		e.Index += inputs
		r.errs = append(r.errs, e)
	}
	r.frames = append(r.frames, next.frames...)
}

// failed are the results of one input that has an error.
func failed(class, message string) *Results {
	return &Results{ends: []int{0}, errs: []RecordError{{Class: class, Message: message}}}
}

// answer is what a plugin said about one call, before it is looked at closely.
type answer struct {
	frame  []byte
	counts []uint32
	errs   []*pluginpb.RecordError
	ack    bool // of a sink: no outputs at all
}

// results checks an answer for a call of n records. The error is ErrProtocol.
func (a *answer) results(n int) (*Results, error) {
	r := &Results{ends: make([]int, n)}
	if err := r.addErrors(a.errs, n); err != nil {
		return nil, err
	}
	if a.ack {
		return r, nil
	}
	records, err := pluginpb.Decode(a.frame)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if a.counts != nil && len(a.counts) != n {
		return nil, fmt.Errorf("%w: %d counts for a batch of %d records", ErrProtocol, len(a.counts), n)
	}
	end := 0
	for i := range r.ends {
		count := 1
		if a.counts != nil {
			count = int(a.counts[i])
		}
		if count > len(records)-end {
			end = -1
			break
		}
		end += count
		r.ends[i] = end
	}
	if end != len(records) {
		return nil, fmt.Errorf("%w: a result of %d records does not match its counts for %d inputs",
			ErrProtocol, len(records), n)
	}
	r.records, r.frames = records, [][]byte{a.frame}
	return r, nil
}

func (r *Results) addErrors(errs []*pluginpb.RecordError, n int) error {
	last := -1
	for _, e := range errs {
		if int64(e.Index) >= int64(n) || int(e.Index) <= last {
			return fmt.Errorf("%w: error for record %d of a batch of %d", ErrProtocol, e.Index, n)
		}
		last = int(e.Index)
		r.errs = append(r.errs, RecordError{
			Index: last, Class: e.Class, Message: e.Message, Retryable: e.Retryable,
		})
	}
	return nil
}
