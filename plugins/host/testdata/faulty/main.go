// Command faulty is a plugin that fails in the way its configuration or environment asks for.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// Config says what goes wrong and at which offset.
type Config struct {
	Fault string `json:"fault" enum:"none,panic,exit,hang,error,retryable,fatal,drop,noise,flood,big"`
	At    int64  `json:"at" default:"-1"`
	Every int64  `json:"every" default:"0"`
	Once  string `json:"once" doc:"file that says the fault happened already"`
}

// SourceConfig is that of the counting source.
type SourceConfig struct {
	Count   int64  `json:"count" default:"100" min:"0"`
	CrashAt int64  `json:"crash_at" default:"-1"`
	Once    string `json:"once"`
	Commits string `json:"commits" doc:"file that gets the committed positions"`
}

func init() {
	switch os.Getenv("FAULT_AT_START") {
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot find my license")
		os.Exit(7)
	case "panic":
		panic("bad start")
	case "hang":
		select {}
	case "noise":
		fmt.Print("noise before serve without a newline")
		_, _ = syscall.Write(1, []byte("raw noise"))
	case "env":
		for _, kv := range os.Environ() {
			fmt.Fprintln(os.Stderr, "env:", kv)
		}
	case "child":
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "child:", c.Process.Pid)
	}
}

func main() {
	sdk.Serve(sdk.Plugin{
		Name: "faulty", Version: "1.2.3", Doc: "Fails as it is told.",
		Parts: []sdk.Part{
			sdk.NewFlatMap("op", operate),
			sdk.NewSource("count", func() sdk.SourceReader[SourceConfig, int64] { return &counter{} }),
			sdk.NewSink("sink", func() sdk.SinkWriter[Config] { return &sink{} }),
		},
	})
}

// first says whether the fault did not happen yet, and notes that it does now.
func first(path string) bool {
	if path == "" {
		return true
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func operate(ctx sdk.Ctx, c Config, r *sdk.Record, emit sdk.Emit) error {
	hit := r.Offset() == c.At || c.Every > 0 && r.Offset()%c.Every == 0
	if !hit || !first(c.Once) {
		emit(r)
		return nil
	}
	switch c.Fault {
	case "panic":
		panic("poison at " + strconv.FormatInt(r.Offset(), 10))
	case "exit":
		os.Exit(3)
	case "hang":
		select {}
	case "error":
		emit(r)
		return errors.New("no such customer")
	case "retryable":
		return ctx.Retryable(errors.New("try later"))
	case "fatal":
		return ctx.Fatal(errors.New("license expired"))
	case "drop":
		return ctx.Drop()
	case "noise":
		ctx.Log().Warn("seen", "offset", r.Offset())
		fmt.Print("noise on stdout")
		_, _ = syscall.Write(1, []byte("raw noise\n"))
	case "flood":
		b := make([]byte, 1<<16)
		for range 64 {
			_, _ = os.Stdout.Write(b)
			_, _ = syscall.Write(2, b)
		}
	case "big":
		r.SetValue(make([]byte, 6<<20))
	}
	emit(r)
	return nil
}

// counter emits the numbers from its position on.
type counter struct {
	config SourceConfig
	next   int64
}

func (s *counter) Open(_ sdk.Ctx, c SourceConfig, p *int64) error {
	s.config = c
	if p != nil {
		s.next = *p
	}
	return nil
}

func (s *counter) Read(_ sdk.Ctx, out *sdk.Out[int64]) error {
	for n := 0; n < 10; n++ {
		if s.next == s.config.Count {
			out.SetPosition(s.next)
			return io.EOF
		}
		if s.next == s.config.CrashAt && first(s.config.Once) {
			os.Exit(9)
		}
		r := sdk.NewRecord(nil, strconv.AppendInt(nil, s.next, 10))
		r.SetOrigin("count", s.next)
		if s.next%50 == 49 {
			out.Fail(r, sdk.ClassDecode, errors.New("ends in 49"))
		} else {
			out.Add(r)
		}
		s.next++
	}
	out.SetPosition(s.next)
	return nil
}

func (s *counter) Commit(_ sdk.Ctx, p int64) error {
	if s.config.Commits == "" {
		return nil
	}
	f, err := os.OpenFile(s.config.Commits, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, p)
	return errors.Join(err, f.Close())
}

func (s *counter) Close() error { return nil }

// sink fails or prints.
type sink struct{ config Config }

func (s *sink) Open(ctx sdk.Ctx, c Config, committed sdk.Offsets) error {
	s.config = c
	for tp, o := range committed {
		ctx.Log().Info("opened", "topic", tp.Topic, "partition", tp.Partition, "next", o)
	}
	return nil
}

func (s *sink) Write(ctx sdk.Ctx, b *sdk.Records) error {
	for i := range b.Len() {
		r := b.At(i)
		if r.Offset() == s.config.At && first(s.config.Once) {
			switch s.config.Fault {
			case "panic":
				panic("sink poison")
			case "error":
				b.Fail(i, errors.New("refused"))
				continue
			case "retryable":
				return ctx.Retryable(errors.New("down"))
			case "fatal":
				return ctx.Fatal(errors.New("gone"))
			}
		}
		fmt.Fprintf(ctx.Output(), "%d\n", r.Offset())
	}
	return nil
}

func (s *sink) Close() error { return nil }
