package command

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
)

// awayAgain is how often a command says again that it waits for a broker.
const awayAgain = 30 * time.Second

// away tells the user that a broker which was there does not answer, and when it does again. What
// is on its way is sent again without end meanwhile, of which nothing would be seen. It hears of
// the client's connections from several goroutines.
type away struct {
	printer *output.Printer
	mu      struct {
		sync.Mutex
		// there: the first request was answered. What fails before is the command's own error.
		there bool
		// since when a broker has not answered, zero while it does; told is when that was said.
		since, told time.Time
	}
}

var (
	_ kgo.HookBrokerConnect = (*away)(nil)
	_ kgo.HookBrokerRead    = (*away)(nil)
)

// answered notes that the first request was answered.
func (w *away) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.there = true
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (w *away) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		w.gone(to, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.since.IsZero() {
		return
	}
	w.printer.Note("the broker answers again, after %s",
		time.Since(w.mu.since).Round(time.Second))
	w.mu.since = time.Time{}
}

// OnBrokerRead implements kgo.HookBrokerRead. A connection that the broker has closed, as it does
// with idle ones, says nothing; one on which no answer comes does.
func (w *away) OnBrokerRead(to kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.gone(to, err)
	}
}

func (w *away) gone(to kgo.BrokerMetadata, err error) {
	if _, network := errors.AsType[*net.OpError](err); !network || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.Canceled) {
		return // the command ends
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.mu.there || !w.mu.since.IsZero() && now.Sub(w.mu.told) < awayAgain {
		return
	}
	if w.mu.since.IsZero() {
		w.mu.since = now
	}
	w.mu.told = now
	w.printer.Note("the broker at %s does not answer, it is tried again (Ctrl-C ends): %v",
		net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))), err)
}
