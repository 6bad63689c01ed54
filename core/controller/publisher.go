package controller

import (
	"slices"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/metadata"
)

// watchRequest adds a watcher.
type watchRequest struct {
	watcher *watcher
	added   chan struct{} // closed when it has seen the present image
}

type watcher struct {
	fn      func(*metadata.Image)
	removed atomic.Bool // set by cancel
}

// Watch calls fn with the present image, and then with each newer one; images may be left out when
// several changes come at once. It returns after the first call. fn runs in the publisher: commands
// are answered after it returns, so it must not call the controller. cancel ends the calls; one may
// be going on.
func (c *Controller) Watch(fn func(*metadata.Image)) (cancel func()) {
	w := &watcher{fn: fn}
	r := &watchRequest{watcher: w, added: make(chan struct{})}
	select {
	case c.watches <- r:
		<-r.added
	case <-c.lifetime.Done():
	}
	return func() { w.removed.Store(true) }
}

// publish is the publisher's goroutine.
func (c *Controller) publish() {
	var watchers []*watcher
	for {
		select {
		case <-c.machine.changed:
			s, leader := c.machine.current()
			image := s.image.WithController(leader)
			watchers = slices.DeleteFunc(watchers, (*watcher).isRemoved)
			for _, w := range watchers {
				w.fn(image)
			}
			c.image.Store(image)
			c.releaseWaiters(image.Version())
		case r := <-c.watches:
			r.watcher.fn(c.image.Load())
			watchers = append(watchers, r.watcher)
			close(r.added)
		case <-c.lifetime.Done():
			return
		}
	}
}

func (w *watcher) isRemoved() bool { return w.removed.Load() }

func (c *Controller) releaseWaiters(version int64) {
	c.published.Lock()
	defer c.published.Unlock()
	c.published.waiting = slices.DeleteFunc(c.published.waiting, func(w waiter) bool {
		if w.version > version {
			return false
		}
		close(w.done)
		return true
	})
}

// awaitPublished returns when the image of a version is out, or the controller ends.
func (c *Controller) awaitPublished(version int64) {
	c.published.Lock()
	if c.image.Load().Version() >= version {
		c.published.Unlock()
		return
	}
	w := waiter{version: version, done: make(chan struct{})}
	c.published.waiting = append(c.published.waiting, w)
	c.published.Unlock()
	select {
	case <-w.done:
	case <-c.lifetime.Done():
	}
}
