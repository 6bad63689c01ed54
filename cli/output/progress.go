package output

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows how far a long task is: a bar on a terminal, one line every ten seconds elsewhere.
type Progress struct {
	w     io.Writer
	label string
	total int64
	bar   *progressbar.ProgressBar
	last  time.Time
	done  bool
}

// reportEvery is how often progress is written where there is no terminal to redraw.
const reportEvery = 10 * time.Second

// Unit is what a progress display counts. Of bytes only the share that is done is shown.
type Unit string

// The units.
const (
	Records Unit = "rec"
	Bytes   Unit = "B"
)

// NewProgress starts a progress display of total units on the printer's standard error.
func (p *Printer) NewProgress(label string, total int64, unit Unit) *Progress {
	g := &Progress{w: p.Err, label: label, total: total, last: time.Now()}
	if p.Quiet {
		g.w = io.Discard
	}
	if !p.Quiet && IsTerminal(p.Err) {
		g.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.Err),
			progressbar.OptionSetDescription(label),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(true),
		)
		if unit == Records {
			progressbar.OptionShowCount()(g.bar)
			progressbar.OptionShowIts()(g.bar)
			progressbar.OptionSetItsString(string(unit))(g.bar)
		}
	}
	return g
}

// SetTotal changes the number of units expected.
func (g *Progress) SetTotal(total int64) {
	g.total = total
	if g.bar != nil {
		g.bar.ChangeMax64(total)
	}
}

// Set shows that n units are done.
func (g *Progress) Set(n int64) {
	if g.done {
		return
	}
	if g.bar != nil {
		_ = g.bar.Set64(min(n, g.total)) // a display error must not stop the work
		return
	}
	if now := time.Now(); now.Sub(g.last) >= reportEvery {
		g.last = now
		fmt.Fprintf(g.w, "%s %d/%d\n", g.label, n, g.total)
	}
}

// Clear removes the bar so that other lines can be printed.
func (g *Progress) Clear() {
	if g.bar != nil && !g.done {
		_ = g.bar.Clear()
	}
}

// Finish ends the display with n units done; a bar stays as a line of its own.
func (g *Progress) Finish(n int64) {
	if g.done {
		return
	}
	if g.bar != nil {
		_ = g.bar.Set64(min(n, g.total))
		_ = g.bar.Finish()
		fmt.Fprintln(g.w)
	}
	g.done = true
}
