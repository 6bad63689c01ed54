package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// How soon our own clients have to notice that the host of the broker is gone, and to go on when it is back.
const (
	// noticeTime is what the longest request may take: a produce, 10 s for the broker and 10 s on the way.
	noticeTime = 20 * time.Second
	// sayTime is when they have to have said so: when the first try to connect again has failed, too.
	sayTime = noticeTime + 10*time.Second
	// returnTime is one try to connect that began just before (10 s), and the longest pause between two tries (5 s).
	returnTime = 15 * time.Second
	// refuseTime is how long a command may look for a broker.
	refuseTime = 5 * time.Second
	// silence is longer than a transaction (40 s) and the session of a worker (45 s) last.
	silence = 50 * time.Second
)

// pipelines are one that counts, behind a repartition topic, and one from a file to a topic and a file.
var pipelines = map[string]string{
	"counts": `version: 1
pipeline: counts
sources:
  in: {topic: numbers-in, key: string}
steps:
  - id: agg
    aggregate: {by: value.g, unbounded: true, fields: {n: count}}
sinks:
  out: {topic: counts-out}
`,
	"copy": `version: 1
pipeline: copy
sources:
  in: {connector: file, config: {path: DIR/lines.ndjson, follow: true, poll: 20ms}, topic: lines, partitions: 2}
sinks:
  out: {topic: copied}
  file: {connector: file, config: {path: DIR/copied.ndjson}}
`,
}

// ours is the run in which the host of the broker is gone for our own clients.
type ours struct {
	node      *node
	namespace string
	// clients are processes beyond the link.
	worker, producer, consumer *program
	feed                       *feed
	// at is when the host was gone.
	at time.Time
}

// program is one of our own, beyond the link.
type program struct {
	name string
	cmd  *exec.Cmd
	// out and log are the files of what it prints.
	out, log string
	ended    chan struct{}
	// before are the connections it had when the host was gone, logged are the bytes of its log then.
	before map[string]bool
	logged int
}

func (o *ours) run(ctx context.Context) (err error) {
	o.node.roles = "broker,controller" // pipelines run beyond the link only
	if err := o.node.start(ctx); err != nil {
		return err
	}
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.kill()
	if err := o.gone(ctx, silence, false); err != nil {
		return fmt.Errorf("the host is away: %w", err)
	}
	if err := o.gone(ctx, sayTime, true); err != nil {
		return fmt.Errorf("the host starts anew: %w", err)
	}
	return o.judge(ctx)
}

// begin starts everything and waits until results come.
func (o *ours) begin(ctx context.Context) error {
	cl, err := client(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	for topic, partitions := range map[string]int32{"numbers-in": 3, "counts-out": 3, "said": 3, "copied": 2} {
		if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
	}
	ready := filepath.Join(o.node.Dir, "worker.json")
	o.worker, err = o.start("worker", nil, "server", "--roles", "worker", "--data-dir", filepath.Join(o.node.Dir, "worker"),
		"--ready-file", ready)
	if err != nil {
		return err
	}
	there := func() bool { _, err := os.Stat(ready); return err == nil }
	if _, err := o.node.Until(ctx, 20*time.Second, "the worker is ready", there); err != nil {
		return err
	}
	lines, said, err := os.Pipe()
	if err != nil {
		return err
	}
	if o.feed, err = startFeed(ctx, cl, filepath.Join(o.node.Dir, "lines.ndjson"), said); err != nil {
		return err
	}
	if o.producer, err = o.start("produce", lines, "produce", "said"); err != nil {
		return err
	}
	if err := lines.Close(); err != nil {
		return err
	}
	if o.consumer, err = o.start("consume", nil, "consume", "counts-out", "-F", "-o", "ndjson"); err != nil {
		return err
	}
	for name, text := range pipelines {
		file := filepath.Join(o.node.Dir, name+".yaml")
		text = strings.ReplaceAll(text, "DIR", o.node.Dir)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if out, err := exec.Command(o.node.Binary, "pipeline", "apply", file, "--bootstrap", addr).CombinedOutput(); err != nil {
			return fmt.Errorf("apply %s: %w: %s", name, err, out)
		}
	}
	flows := func() bool { return o.results() > 200 && o.copied() > 20 }
	_, err = o.node.Until(ctx, 30*time.Second, "results come out of both pipelines", flows)
	return err
}

// start starts one of our programs beyond the link.
func (o *ours) start(name string, in *os.File, args ...string) (*program, error) {
	p := &program{name: name, out: filepath.Join(o.node.Dir, name+".out"), log: filepath.Join(o.node.Dir, name+".log"),
		ended: make(chan struct{})}
	p.cmd = o.beyond(args...)
	out, err := os.Create(p.out)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = out, log
	if in != nil {
		p.cmd.Stdin = in
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	return p, nil
}

// beyond is a command of the program under test in the other namespace.
func (o *ours) beyond(args ...string) *exec.Cmd {
	args = append([]string{"netns", "exec", o.namespace, o.node.Binary}, args...)
	return dyingWithMe(exec.Command("ip", append(args, "--bootstrap", addr)...))
}

func (o *ours) kill() {
	for _, p := range []*program{o.worker, o.producer, o.consumer} {
		if p != nil {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	o.feed.stop()
}

// results counts what the consumer printed, copied what the sink wrote.
func (o *ours) results() int { return lines(o.consumer.out) }
func (o *ours) copied() int  { return lines(filepath.Join(o.node.Dir, "copied.ndjson")) }

func lines(file string) int {
	data, _ := os.ReadFile(file)
	return bytes.Count(data, []byte("\n"))
}

// sockets are the connections over the link of a program.
func (p *program) sockets() map[string]bool {
	over := map[string]bool{}
	for _, c := range connections(p.cmd.Process.Pid, serverIP) {
		over["socket:["+c.inode+"]"] = true
	}
	its := map[string]bool{}
	dir := fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		if to, _ := os.Readlink(filepath.Join(dir, fd.Name())); over[to] {
			its[to] = true
		}
	}
	return its
}

// givesUp tells that the program has given up a connection it had when the host was gone.
func (p *program) givesUp() bool {
	now := p.sockets()
	for s := range p.before {
		if !now[s] {
			return true
		}
	}
	return false
}

// silent makes both ends send to where nobody is: no FIN, no RST, no ICMP, and nothing that answers an ARP request. So
// it is when a host loses its power behind a router.
func (o *ours) silent(ctx context.Context, gone bool) error {
	nobody := []string{"replace", "lladdr", "02:00:00:00:00:99", "nud", "permanent"}
	for _, end := range []struct{ namespace, peer string }{{o.namespace, serverIP}, {"", clientsIP}} {
		args := []string{"neigh", "del", end.peer, "dev", "cut"}
		if gone {
			args = append([]string{"neigh", nobody[0], end.peer, "dev", "cut"}, nobody[1:]...)
		}
		if end.namespace != "" {
			args = append([]string{"-n", end.namespace}, args...)
		}
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// gone takes the host away for a span, in which the broker may be killed and started anew, and looks how long the
// clients take to notice, and to go on afterwards.
func (o *ours) gone(ctx context.Context, span time.Duration, reboot bool) error {
	programs := []*program{o.worker, o.producer, o.consumer}
	for _, p := range programs {
		if p.before = p.sockets(); len(p.before) == 0 {
			return fmt.Errorf("%s has no connection over the link", p.name)
		}
		log, _ := os.ReadFile(p.log)
		p.logged = len(log)
	}
	if err := o.silent(ctx, true); err != nil {
		return err
	}
	o.at = time.Now()
	if reboot {
		o.node.Kill()
		if err := o.node.start(ctx); err != nil {
			return err
		}
	}
	var wait sync.WaitGroup
	errs := make([]error, len(programs)+1)
	for i, p := range programs {
		wait.Go(func() { errs[i] = o.noticed(ctx, p) })
	}
	wait.Go(func() { errs[len(programs)] = o.refused(ctx) })
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := o.node.Pause(ctx, time.Until(o.at.Add(span))); err != nil {
		return err
	}
	seen, copied := o.results(), o.copied()
	if err := o.silent(ctx, false); err != nil {
		return err
	}
	back := time.Now()
	on := func() bool { return o.results() > seen && o.copied() > copied }
	at, err := o.node.Until(ctx, returnTime+slack, "results come again", on)
	if err == nil {
		fmt.Printf("gone for %.1f s; results came again %.1f s after it was back\n", back.Sub(o.at).Seconds(), at.Sub(back).Seconds())
	}
	return err
}

// noticed waits until a program notices that the host is gone, and until it says so.
func (o *ours) noticed(ctx context.Context, p *program) error {
	at, err := o.node.Until(ctx, noticeTime+slack, p.name+" notices that the host is gone", p.givesUp)
	if err != nil {
		return err
	}
	said, err := o.node.Until(ctx, time.Until(o.at.Add(sayTime+slack)), p.name+" says that the host is gone", p.says)
	if err != nil {
		log, _ := os.ReadFile(p.log)
		return fmt.Errorf("%w: %.1000s", err, log[min(len(log), p.logged):])
	}
	fmt.Printf("%s, which had %d connections, noticed after %.1f s and said so after %.1f s\n", p.name, len(p.before),
		at.Sub(o.at).Seconds(), said.Sub(o.at).Seconds())
	return nil
}

// refused tells that a command that begins now says what is wrong, and soon.
func (o *ours) refused(ctx context.Context) error {
	began := time.Now()
	out, err := o.beyond("topic", "ls").CombinedOutput()
	took := time.Since(began)
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended || exit.ExitCode() == 1 || !bytes.Contains(out, []byte("no broker answers at "+addr)) {
		return fmt.Errorf("a command while the host is gone: %v after %v: %s", err, took, out)
	}
	fmt.Printf("a command said so after %.1f s\n", took.Seconds())
	if took > refuseTime+slack {
		return fmt.Errorf("a command took %v to say that the host is gone", took)
	}
	return ctx.Err()
}

// says tells that a program has told its user.
func (p *program) says() bool {
	data, _ := os.ReadFile(p.log)
	return bytes.Contains(data[min(len(data), p.logged):], []byte("broker"))
}

// judge ends the programs in order and looks that nothing was lost and nothing is there twice.
func (o *ours) judge(ctx context.Context) error {
	fed, copied, said, err := o.feed.end(ctx)
	if err != nil {
		return err
	}
	var errs []error
	select {
	case <-o.producer.ended:
	case <-time.After(returnTime + slack):
		return errors.New("produce does not end with its input")
	}
	if state := o.producer.cmd.ProcessState; !state.Success() {
		log, _ := os.ReadFile(o.producer.log)
		errs = append(errs, fmt.Errorf("produce ended with %s: %s", state, log))
	}
	complete := func() bool { n, _ := o.counted(); return n >= fed && o.copied() >= copied }
	if _, err := o.node.Until(ctx, returnTime+slack, "all results are there", complete); err != nil {
		n, _ := o.counted()
		errs = append(errs, fmt.Errorf("%w: %d of %d counted, %d of %d copied", err, n, fed, o.copied(), copied))
	}
	if n, wrong := o.counted(); len(wrong) > 0 || n != fed {
		errs = append(errs, fmt.Errorf("%d of %d records were counted, and %q", n, fed, few(wrong)))
	}
	there, _ := os.ReadFile(filepath.Join(o.node.Dir, "copied.ndjson"))
	errs = append(errs, once("copied.ndjson", strings.Fields(string(there)), copied))
	for topic, n := range map[string]int{"said": said, "lines": copied, "copied": copied} {
		values, err := o.feed.read(ctx, topic)
		errs = append(errs, err, once(topic, values, n))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%d records were counted, %d lines copied to a topic and a file, %d produced: each once\n", fed, copied, said)
	return nil
}

// once tells that the numbers from 0 to n are there once each.
func once(where string, values []string, n int) error {
	seen := map[string]int{}
	for _, v := range values {
		seen[v]++
	}
	var wrong []string
	for i := range n {
		if k := seen[fmt.Sprint(i)]; k != 1 {
			wrong = append(wrong, fmt.Sprintf("%d is there %d times", i, k))
		}
	}
	if len(wrong) == 0 && len(seen) == n {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%s has %d different of %d numbers: %q", where, len(seen), n, few(wrong))
}

// few are the first of many.
func few(all []string) []string { return all[:min(len(all), 5)] }
