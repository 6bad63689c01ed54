package storage

// SaveCheckpoints writes all checkpoint files, as Run does from time to time.
func (d *Dir) SaveCheckpoints() error { return d.saveCheckpoints() }

// Abandon ends the use of the directory as the end of the process does.
func (d *Dir) Abandon() {
	d.closeAll()
	_ = d.lock.Close()
}
