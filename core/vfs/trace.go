package vfs

import "fmt"

// NewTrace returns fsys with fn called ahead of each operation that can change what is on the disk
// or what survives a crash. The lines are stable, for golden files:
//
//	create NAME | open NAME | write NAME @OFF +N | sync NAME | truncate NAME N | close NAME
//	rename OLD NEW | remove NAME | removeall NAME | mkdir NAME | syncdir NAME | synctree NAME
//	lock NAME
//
// Writes at the handle's own offset have no @OFF.
func NewTrace(fsys FS, fn func(op string)) FS {
	return &wrapFS{FS: fsys, before: func(c *call) error {
		switch c.op {
		case OpRead, OpReadDir, OpStat, OpPreallocate:
		case OpRename:
			fn(fmt.Sprintf("%s %s %s", c.op, c.name, c.to))
		case OpTruncate:
			fn(fmt.Sprintf("%s %s %d", c.op, c.name, c.n))
		case OpWrite:
			if c.off < 0 {
				fn(fmt.Sprintf("%s %s +%d", c.op, c.name, c.n))
			} else {
				fn(fmt.Sprintf("%s %s @%d +%d", c.op, c.name, c.off, c.n))
			}
		default:
			fn(fmt.Sprintf("%s %s", c.op, c.name))
		}
		return nil
	}}
}
