package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashClone returns what a disk could hold after a power cut at this moment; m itself goes on.
// Synced bytes and names are there. Of what was not synced, a choice drawn from the seed is: names
// of any subset of the changes of a directory, of any subset of the writes of a file, the last of
// which may be torn at any byte, or of any subset of their blocks of 512 or 4096 bytes; what lies
// between is zero, or what was there before. What was later overwritten is not brought back.
// Locks are free in the clone. Equal histories and seeds give equal clones.
func (m *Mem) CrashClone(seed uint64) *Mem {
	c := NewMem()
	crash := crasher{
		rand: rand.New(rand.NewPCG(seed, 0x6d696c6c)),
		done: make(map[*memNode]*memNode),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// All files are held before the first is copied: a power cut is one moment, and what was
	// written after a sync of another file must not be there without it.
	held := make(map[*memNode]bool)
	hold(m.mu.root, held)
	c.mu.root = crash.node(m.mu.root)
	for n := range held {
		if !n.mode.IsDir() {
			n.file.mu.RUnlock()
		}
	}
	return c
}

// hold locks the content of all files that a crash may bring, from n on.
func hold(n *memNode, held map[*memNode]bool) {
	if n == nil || held[n] {
		return
	}
	held[n] = true
	if !n.mode.IsDir() {
		n.file.mu.RLock()
		return
	}
	for _, entry := range n.entries {
		hold(entry, held)
	}
	for _, change := range n.changes {
		hold(change.node, held)
		hold(change.replaced, held)
		hold(change.unlinked, held)
	}
}

type crasher struct {
	rand *rand.Rand
	done map[*memNode]*memNode // a node linked twice stays one node
}

// keep draws which of n changes in order reached the disk. Half of the draws are a prefix, as a
// journal gives, the others any subset.
func (c *crasher) keep(n int) []bool {
	kept := make([]bool, n)
	if n == 0 {
		return kept
	}
	if c.rand.IntN(2) == 0 {
		for i := range c.rand.IntN(n + 1) {
			kept[i] = true
		}
		return kept
	}
	for i := range kept {
		kept[i] = c.rand.IntN(2) == 0
	}
	return kept
}

// node returns what is left of n. The content of all files is held.
func (c *crasher) node(n *memNode) *memNode {
	if made := c.done[n]; made != nil {
		return made
	}
	made := &memNode{mode: n.mode}
	c.done[n] = made
	if !n.mode.IsDir() {
		made.file.mu.bytes = c.content(&n.file)
		made.file.mu.modified = n.file.mu.modified
		return made
	}
	entries := c.names(n)
	made.entries = make(map[string]*memNode, len(entries))
	for _, name := range sortedNames(entries) {
		made.entries[name] = c.node(entries[name])
	}
	return made
}

// names returns the entries of a directory after the crash.
func (c *crasher) names(n *memNode) map[string]*memNode {
	entries := maps.Clone(n.entries)
	for _, change := range slices.Backward(n.changes) {
		restore(entries, change.link, change.replaced)
		restore(entries, change.unlink, change.unlinked)
	}
	kept := c.keep(len(n.changes))
	for i, change := range n.changes {
		if !kept[i] {
			continue
		}
		restore(entries, change.unlink, nil)
		restore(entries, change.link, change.node)
	}
	return entries
}

func restore(entries map[string]*memNode, name string, node *memNode) {
	switch {
	case name == "":
	case node == nil:
		delete(entries, name)
	default:
		entries[name] = node
	}
}

// content returns the bytes of a file after the crash. The caller holds the file's lock.
func (c *crasher) content(d *memData) []byte {
	now := d.mu.bytes
	disk := slices.Clone(now)
	for _, w := range slices.Backward(d.mu.pending) {
		disk = resized(disk, w.oldSize)
		copy(disk[min(w.off, w.oldSize):], w.old)
	}
	block := []int64{0, 0, 512, 4096}[c.rand.IntN(4)]
	kept := c.keep(len(d.mu.pending))
	last := lastTrue(kept)
	for i, w := range d.mu.pending {
		if !kept[i] {
			continue
		}
		if w.n < 0 {
			disk = resized(disk, w.off)
			continue
		}
		end := min(w.off+w.n, int64(len(now)))
		if i == last && end > w.off && c.rand.IntN(2) == 0 {
			end = w.off + c.rand.Int64N(end-w.off+1)
		}
		if end <= w.off {
			continue
		}
		if block > 0 {
			disk = c.blocks(disk, now, w.off, end, block)
			continue
		}
		disk = resized(disk, max(end, int64(len(disk))))
		copy(disk[w.off:end], now[w.off:end])
	}
	return disk
}

// blocks copies a choice of the blocks of now[off:end] to the disk: in any order they may have
// reached it, and the size of the file with or without the last of them.
func (c *crasher) blocks(disk, now []byte, off, end, size int64) []byte {
	if c.rand.IntN(2) == 0 {
		disk = resized(disk, max(end, int64(len(disk))))
	}
	for off < end {
		next := min(end, (off/size+1)*size)
		if c.rand.IntN(2) == 0 {
			disk = resized(disk, max(next, int64(len(disk))))
			copy(disk[off:next], now[off:next])
		}
		off = next
	}
	return disk
}

// Clone returns what another process sees when this one is killed: all of it, synced or not, with
// the same left to be synced. Locks are free in the clone.
func (m *Mem) Clone() *Mem {
	c := NewMem()
	m.mu.Lock()
	defer m.mu.Unlock()
	c.mu.root = m.mu.root.clone(make(map[*memNode]*memNode))
	return c
}

// clone copies a node and all that a crash may bring back.
func (n *memNode) clone(done map[*memNode]*memNode) *memNode {
	if n == nil || done[n] != nil {
		return done[n]
	}
	made := &memNode{mode: n.mode}
	done[n] = made
	if !n.mode.IsDir() {
		n.file.mu.RLock()
		defer n.file.mu.RUnlock()
		made.file.mu.bytes = slices.Clone(n.file.mu.bytes)
		made.file.mu.pending = slices.Clone(n.file.mu.pending)
		made.file.mu.modified = n.file.mu.modified
		return made
	}
	made.entries = make(map[string]*memNode, len(n.entries))
	for name, entry := range n.entries {
		made.entries[name] = entry.clone(done)
	}
	for _, change := range n.changes {
		change.node = change.node.clone(done)
		change.unlinked = change.unlinked.clone(done)
		change.replaced = change.replaced.clone(done)
		made.changes = append(made.changes, change)
	}
	return made
}

func lastTrue(list []bool) int {
	for i, v := range slices.Backward(list) {
		if v {
			return i
		}
	}
	return -1
}
