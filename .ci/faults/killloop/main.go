package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "killloop:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	binary, dir string
	port        int
	cycles      int
	seed        uint64
}

func run() error {
	runtime.LockOSThread() // the broker ends with the thread that has started it
	var o options
	flag.StringVar(&o.binary, "binary", "", "the millstream program")
	flag.StringVar(&o.dir, "dir", "", "directory for the data and the log")
	flag.IntVar(&o.port, "port", 21590, "the broker's port")
	flag.IntVar(&o.cycles, "cycles", 5, "how often to kill")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the random moments")
	flag.Parse()
	if o.binary == "" || o.dir == "" {
		return errors.New("name -binary and -dir")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	l := &loop{
		options: o, random: rand.New(rand.NewPCG(o.seed, 0)),
		broker: &broker{binary: o.binary, dir: o.dir, port: o.port},
	}
	defer l.broker.kill()
	fmt.Printf("seed %d, %d cycles, data in %s\n", o.seed, o.cycles, o.dir)
	if err := l.run(ctx); err != nil {
		return fmt.Errorf("cycle %d: %w\n  again: .ci/faults/kill %s %d --seed %d (data kept in %s)",
			l.cycle, err, o.binary, o.cycles, o.seed, o.dir)
	}
	return nil
}

// loop is a run.
type loop struct {
	options
	random *rand.Rand
	broker *broker
	world  *world
	cycle  int
	total  totals
}

// totals are told at the end: they show that the kills hit something.
type totals struct {
	kills, duringStart, stops int
	// inFlight sums what was sent and not acknowledged when the kills came.
	inFlight int
	// notes sums what doctor says the next start repairs.
	notes int
	// slowest is the longest start after a kill.
	slowest time.Duration
}

func (l *loop) run(ctx context.Context) error {
	if _, err := l.broker.start(ctx); err != nil {
		return err
	}
	var err error
	if l.world, err = newWorld(ctx, l.broker.addr(), l.random.Uint64()); err != nil {
		return err
	}
	defer l.world.stop()
	began := time.Now()
	for l.cycle = 1; l.cycle <= l.cycles; l.cycle++ {
		if err := l.one(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	l.cycle = 0 // the last look, at everything
	if err := l.world.verify(ctx, true); err != nil {
		return err
	}
	if err := l.world.bit(); err != nil {
		return err
	}
	t := l.total
	fmt.Printf("%d kills (%d while starting), %d stops, %d in flight at kills, %d notes of doctor, slowest start %v\n",
		t.kills, t.duringStart, t.stops, t.inFlight, t.notes, t.slowest.Round(time.Millisecond))
	fmt.Println(l.world.summary())
	fmt.Printf("ok: %d cycles in %v\n", l.cycles, time.Since(began).Round(time.Second))
	return nil
}

// one verifies, loads, kills and starts again.
func (l *loop) one(ctx context.Context) error {
	began := time.Now()
	if err := l.world.verify(ctx, l.cycle%10 == 0); err != nil {
		return err
	}
	verified := time.Since(began)
	if err := l.world.progress(ctx); err != nil {
		return err
	}
	// Most kills come soon, some after a longer time.
	span := time.Duration(l.random.IntN(150)) * time.Millisecond
	if l.random.IntN(4) == 0 {
		span = time.Duration(l.random.IntN(800)) * time.Millisecond
	}
	if err := pause(ctx, span); err != nil {
		return err
	}
	inFlight, how := l.world.inFlight(), "kill"
	if l.random.IntN(20) == 0 {
		how = "stop"
		if err := l.broker.stop(); err != nil {
			return err
		}
		l.total.stops++
	} else {
		l.broker.kill()
		l.total.kills++
		l.total.inFlight += inFlight
	}
	notes, err := l.doctor(how == "stop")
	if err != nil {
		return err
	}
	if l.random.IntN(20) < 3 {
		if err := l.killWhileStarting(ctx); err != nil {
			return err
		}
		how += " and kill while starting"
	}
	took, err := l.broker.start(ctx)
	if err != nil {
		return err
	}
	l.world.nextLife(ctx)
	l.total.slowest = max(l.total.slowest, took)
	fmt.Printf("%4d  %v ms of load, verified in %v ms, %d in flight, %s, %d notes, started in %v ms\n", l.cycle,
		time.Since(began).Milliseconds(), verified.Milliseconds(), inFlight, how, notes, took.Milliseconds())
	return nil
}

// killWhileStarting starts the broker and kills it before or shortly after it serves.
func (l *loop) killWhileStarting(ctx context.Context) error {
	if err := l.broker.launch(); err != nil {
		return err
	}
	if err := pause(ctx, time.Duration(l.random.IntN(60))*time.Millisecond); err != nil {
		return err
	}
	l.broker.kill()
	l.total.kills++
	l.total.duringStart++
	_, err := l.doctor(false)
	return err
}

// doctor checks the files of the broker that has ended.
func (l *loop) doctor(clean bool) (notes int, err error) {
	found, err := l.broker.doctor()
	if err != nil {
		return 0, err
	}
	if found.Damages > 0 || clean && found.Notes > found.leftovers {
		return 0, fmt.Errorf("doctor finds %d damages and %d notes (after a stop in order: %v):\n%s",
			found.Damages, found.Notes, clean, found.text)
	}
	l.total.notes += found.Notes
	return found.Notes, nil
}

// pause waits for span.
func pause(ctx context.Context, span time.Duration) error {
	select {
	case <-time.After(span):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
