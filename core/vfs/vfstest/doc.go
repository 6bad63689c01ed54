// Package vfstest puts the files that tests leave onto the real disk, so that other programs can
// judge them: .ci/compat/dump-log has Kafka's own tool read each file.
//
// # Path
//
//	go test PACKAGE... -keep-logs DIR: Keep, called by fixtures -> when the test has passed, a copy
//	in DIR/<package>/<test>/<number>/
//
// A test whose files are not sound on purpose calls LeaveOut with the reason, which is kept in
// place of the files.
//
// # Locks
//
// One, for what was kept and left out.
//
// # Goroutines
//
// None.
package vfstest
