package storage

import "context"

// What rounds of the journal would wait for is done before, while they go on.
//
// At the end of a lap everybody waits until the logs' files are synced, and what takes long to
// sync holds up the appends to it as well. So their bytes are brought to the disk in small parts,
// the last ones right before the end. That changes nothing that is known of the files: the end of
// the lap syncs them again, and finds little to do.
//
// In the first lap the file grows, and a round that makes it grow takes several times as long. So
// it grows once, to its whole size, which holds up one round.

// How many bytes of the journal go by until the files are synced ahead: so many at least, and so
// many for each log, since each costs a sync.
const (
	journalAhead    = 2 << 20
	journalAheadLog = 256 << 10
)

// runAhead works ahead until ctx ends.
func (j *groupJournal) runAhead(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-j.ahead:
		}
		j.fillAhead()
		if j.dueAhead() {
			j.syncAhead(ctx)
		}
	}
}

// fillAhead fills the rest of a new file with zeros, durably.
func (j *groupJournal) fillAhead() {
	j.token <- struct{}{}
	defer func() { <-j.token }()
	if j.file == nil || j.filled >= j.size || j.dir.failure() != nil {
		return
	}
	for j.filled < j.size {
		if err := j.fill(j.filled + 1); err != nil {
			j.refuse(err)
			return
		}
	}
	if err := j.file.Datasync(); err != nil {
		j.refuse(syncFileError(j.path(), err))
	}
}

// dueAhead reports whether files should be synced ahead, and says when they should next.
func (j *groupJournal) dueAhead() bool {
	j.token <- struct{}{}
	defer func() { <-j.token }()
	if j.file == nil || j.pos < j.aheadAt {
		return false
	}
	j.aheadAt = j.pos + j.aheadStep()
	return true
}

// aheadStep is how much of the lap goes by until the files are synced ahead again.
func (j *groupJournal) aheadStep() int64 {
	return min((j.size-j.pos)/2, max(journalAhead, int64(len(j.logs))*journalAheadLog))
}

// syncAhead syncs the files of which the journal has pieces, one after the other.
func (j *groupJournal) syncAhead(ctx context.Context) {
	j.token <- struct{}{}
	list := make([]*Log, 0, len(j.logs))
	for l := range j.logs {
		list = append(list, l)
	}
	<-j.token
	for _, l := range list {
		if ctx.Err() != nil || j.dir.failure() != nil {
			return
		}
		// The kernel tells of a failed write once: whoever hears of it has to act.
		j.refuse(l.syncActive())
	}
}

// syncActive syncs the file that is appended to, as far as it is written, and publishes nothing. It
// takes no token: appends and rounds of the journal go on meanwhile.
func (l *Log) syncActive() error {
	list := *l.segments.Load()
	if l.closed.Load() || len(list) == 0 {
		return nil
	}
	s := list[len(list)-1]
	if !s.acquire() {
		return nil
	}
	defer s.release()
	if err := s.log.Datasync(); err != nil {
		return syncFileError(s.log.Name(), err)
	}
	return nil
}
