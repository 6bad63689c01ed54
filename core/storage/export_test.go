package storage

import "context"

// SaveCheckpoints writes all checkpoint files, as Run does from time to time.
func (d *Dir) SaveCheckpoints() error { return d.saveCheckpoints() }

// Abandon ends the use of the directory as the end of the process does.
func (d *Dir) Abandon() {
	d.closeAll()
	_ = d.lock.Close()
}

// FlushNow makes the logs' appends durable as the flusher of Run does.
func (d *Dir) FlushNow(ctx context.Context, logs ...*Log) { d.flush(ctx, logs) }

// ShortenJournal makes the journal's laps so many bytes long.
func (d *Dir) ShortenJournal(n int64) { d.journal.size = n }
