package storage

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// progressInterval is how often a long start says how far it is.
const progressInterval = 5 * time.Second

// progress counts what opening a directory has done. A nil one counts nothing.
type progress struct {
	total int64        // partitions
	done  atomic.Int64 // of them
	bytes atomic.Int64 // of batches that recovery has checked
}

// read counts bytes that recovery has checked.
func (p *progress) read(n int64) {
	if p != nil {
		p.bytes.Add(n)
	}
}

// tell logs how far the start is, every few seconds until the returned function is called.
func (p *progress) tell(logger *slog.Logger, dir string, clean bool) (stop func()) {
	began, quit, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				p.log(logger, dir, clean, time.Since(began))
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}

func (p *progress) log(logger *slog.Logger, dir string, clean bool, took time.Duration) {
	what := "logs are being recovered"
	if clean {
		what = "logs are being opened"
	}
	done, left := p.done.Load(), "unknown"
	if done > 0 {
		rest := time.Duration(float64(took) / float64(done) * float64(p.total-done))
		left = rest.Round(time.Second).String()
	}
	logger.Info(what, "dir", dir, "partitions", fmt.Sprintf("%d/%d", done, p.total),
		"mib_read", p.bytes.Load()>>20, "took", took.Round(time.Second), "left", left)
}
