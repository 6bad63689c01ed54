package vfs

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Fault wraps a file system and makes chosen operations fail or wait. Without rules and budget it
// changes nothing.
type Fault struct {
	wrapFS
	mu struct {
		sync.Mutex
		rules  []*faultRule
		budget int64 // bytes that may still be written; noBudget = no limit
		counts map[Op]int
	}
}

const noBudget = -1

var _ FS = (*Fault)(nil)

// Rule says which operations fail or wait.
type Rule struct {
	Op      Op            // "" = every operation
	Path    string        // substring of the name; "" = every name
	Nth     int           // the first match to hit, counted from 1; 0 = 1
	Times   int           // how many matches are hit from there on; 0 = all
	Err     error         // what they return, inside a *fs.PathError; nil = they work
	Partial int64         // bytes that a refused write still writes, its first ones
	Delay   time.Duration // wait before the operation
}

type faultRule struct {
	Rule
	seen int
}

// NewFault returns fsys with no fault yet.
func NewFault(fsys FS) *Fault {
	f := &Fault{}
	f.FS = fsys
	f.before = f.check
	f.mu.budget = noBudget
	f.mu.counts = make(map[Op]int)
	return f
}

// Inject adds a rule and returns a function that removes it.
func (f *Fault) Inject(r Rule) (remove func()) {
	rule := &faultRule{Rule: r}
	rule.Nth = max(rule.Nth, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rules = append(f.mu.rules, rule)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.rules = slices.DeleteFunc(f.mu.rules, func(o *faultRule) bool { return o == rule })
	}
}

// SetSpace says how many more bytes can be written before ENOSPC. The write that passes the limit
// is cut there, as a real one is. A negative number lifts the limit. Removing files frees nothing.
func (f *Fault) SetSpace(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.budget = max(bytes, noBudget)
}

// Count returns how many operations of that kind were asked for, refused ones included.
func (f *Fault) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.counts[op]
}

// Free returns the space left, of the limit if there is one.
func (f *Fault) Free(name string) (uint64, error) {
	f.mu.Lock()
	budget := f.mu.budget
	f.mu.Unlock()
	if budget != noBudget {
		return uint64(budget), nil
	}
	return f.FS.Free(name)
}

// Total implements Sizer as the file system beneath does.
func (f *Fault) Total(name string) (uint64, error) { return Total(f.FS, name) }

func (f *Fault) check(c *call) error {
	delay, err := f.decide(c)
	if delay > 0 {
		<-time.After(delay)
	}
	if err != nil {
		return &fs.PathError{Op: string(c.op), Path: c.name, Err: err}
	}
	return nil
}

// decide counts the call and returns what shall happen to it.
func (f *Fault) decide(c *call) (delay time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.counts[c.op]++
	asked := c.n
	for _, r := range f.mu.rules {
		if r.Op != "" && r.Op != c.op || !strings.Contains(c.name, r.Path) {
			continue
		}
		r.seen++
		if r.seen < r.Nth || r.Times > 0 && r.seen >= r.Nth+r.Times {
			continue
		}
		delay += r.Delay
		if r.Err != nil && err == nil {
			err = r.Err
			c.n = min(r.Partial, asked)
		}
	}
	if c.op != OpWrite || f.mu.budget == noBudget {
		return delay, err
	}
	if c.n > f.mu.budget {
		c.n = f.mu.budget
		err = syscall.ENOSPC
	}
	f.mu.budget -= c.n
	return delay, err
}
