package storage

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// noEpoch is the leader epoch of a log that no leader wrote yet, and of "unknown" answers.
const noEpoch int32 = -1

// epochEntry says that the leader of epoch wrote from offset start on.
type epochEntry struct {
	epoch int32
	start int64
}

// epochList is a log's history of leader epochs (KIP-101), strictly increasing in epoch and start.
// It is immutable: changes return a new list, so that readers need no lock.
//
// The file leader-epoch-checkpoint holds it as text:
//
//	0                  version
//	<n>                number of lines that follow
//	<epoch> <start>    n times
type epochList []epochEntry

// latest returns the last epoch, or noEpoch.
func (l epochList) latest() int32 {
	if len(l) == 0 {
		return noEpoch
	}
	return l[len(l)-1].epoch
}

// assign adds an epoch that starts at offset start. Entries that contradict it are dropped, as a
// new leader's truth wins. It returns l itself if nothing changes.
func (l epochList) assign(epoch int32, start int64) epochList {
	if epoch < 0 {
		return l
	}
	if n := len(l); n > 0 && l[n-1].epoch == epoch && start >= l[n-1].start {
		return l
	}
	keep := len(l)
	for keep > 0 && (l[keep-1].epoch >= epoch || l[keep-1].start >= start) {
		keep--
	}
	return append(slices.Clone(l[:keep]), epochEntry{epoch, start})
}

// extend adds epoch if it is larger than the latest: what a scan of batches finds.
func (l epochList) extend(epoch int32, start int64) epochList {
	if epoch <= l.latest() {
		return l
	}
	return l.assign(epoch, start)
}

// truncateEnd drops the epochs that start at or after end.
func (l epochList) truncateEnd(end int64) epochList {
	n := len(l)
	for n > 0 && l[n-1].start >= end {
		n--
	}
	return l[:n:n]
}

// truncateStart forgets what lies before start; the epoch that covers start then starts there.
func (l epochList) truncateStart(start int64) epochList {
	i := 0
	for i+1 < len(l) && l[i+1].start <= start {
		i++
	}
	if len(l) == 0 || l[i].start >= start {
		return l[i:]
	}
	out := slices.Clone(l[i:])
	out[0].start = start
	return out
}

// endOffset answers OffsetForLeaderEpoch: the largest known epoch <= epoch and the offset after its
// last record. Unknown answers are (-1, -1).
func (l epochList) endOffset(epoch int32, logEnd int64) (int32, int64) {
	switch {
	case len(l) == 0 || epoch < 0 || epoch > l.latest():
		return noEpoch, -1
	case epoch == l.latest():
		return epoch, logEnd
	case epoch < l[0].epoch:
		return epoch, l[0].start
	}
	i, found := slices.BinarySearchFunc(l, epoch, func(e epochEntry, want int32) int {
		return int(int64(e.epoch) - int64(want))
	})
	if !found {
		i--
	}
	return l[i].epoch, l[i+1].start
}

// at returns the epoch in which the record at offset was written, or noEpoch.
func (l epochList) at(offset int64) int32 {
	epoch := noEpoch
	for _, e := range l {
		if e.start > offset {
			break
		}
		epoch = e.epoch
	}
	return epoch
}

func (l epochList) format() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(l))
	for _, e := range l {
		fmt.Fprintf(&b, "%d %d\n", e.epoch, e.start)
	}
	return b.Bytes()
}

// parseEpochs reads the file's content and checks its order. ErrBadFile names the line.
func parseEpochs(data []byte) (epochList, error) {
	lines, err := checkpointLines(data)
	if err != nil {
		return nil, err
	}
	list := make(epochList, 0, len(lines))
	for i, line := range lines {
		epochText, startText, _ := strings.Cut(line, " ")
		epoch, errE := strconv.ParseInt(epochText, 10, 32)
		start, errS := strconv.ParseInt(startText, 10, 64)
		e := epochEntry{int32(epoch), start}
		if errE != nil || errS != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("%w: line %d %q", ErrBadFile, i+3, line)
		}
		if n := len(list); n > 0 && (list[n-1].epoch >= e.epoch || list[n-1].start >= e.start) {
			return nil, fmt.Errorf("%w: line %d %q does not follow %v", ErrBadFile, i+3, line,
				list[n-1])
		}
		list = append(list, e)
	}
	return list, nil
}
