package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What is cut, and the times that the broker is given for it.
const (
	idleConnections, slowReaders = 200, 10
	sharedPartitions             = 6
	sessionTimeout               = 6 * time.Second
	transactionTimeout           = 8 * time.Second
	idleTimeout                  = 10 * time.Second
	stepTimeout                  = 30 * time.Second // the broker's own
	keepaliveTimeout             = 10 * 15 * time.Second
	// slack is how late the broker may be on a busy machine.
	slack = 8 * time.Second
)

// The bounds of what the cut may do to others, and leave.
const (
	worstLimit      = 5 * time.Second
	leftDescriptors = 4
	leftGoroutines  = 16
	leftMemory      = 64 << 20
)

func main() {
	var c cut
	flag.StringVar(&c.node.Binary, "binary", "", "the millstream program")
	flag.StringVar(&c.node.Dir, "dir", "", "directory for the data and the log")
	flag.StringVar(&c.namespace, "namespace", "", "the network namespace of the clients that are cut off")
	flag.BoolVar(&c.node.keepalive, "keepalive", false, "leave idle connections to TCP's keepalive")
	beyond := flag.Bool("beyond", false, "be the clients beyond the link")
	server := flag.Bool("server", false, "the host of the broker is gone for our own clients")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	switch {
	case *beyond:
		err = runBeyond(ctx, os.Stdin, os.Stdout)
	case c.node.Binary == "" || c.node.Dir == "" || c.namespace == "":
		fmt.Fprintln(os.Stderr, "cutlink: name -binary, -dir and -namespace")
		os.Exit(2)
	case *server:
		err = (&ours{node: &c.node, namespace: c.namespace}).run(ctx)
		c.node.Kill()
	default:
		err = c.run(ctx)
		c.node.Kill()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cutlink: %v (the broker's log: %s)\n", err, c.node.Log())
		os.Exit(1)
	}
}

// cut is the run.
type cut struct {
	node      node
	namespace string
	others    *others
	// lost is the process beyond the link, with the lines it says and a way to talk to it.
	lost  *exec.Cmd
	lines *bufio.Scanner
	tell  *os.File
	// at is when the link went down, established how many connections there were.
	at          time.Time
	established int
	before      state
}

func (c *cut) run(ctx context.Context) (err error) {
	if err := c.node.start(ctx); err != nil {
		return err
	}
	if c.others, err = startOthers(ctx, &c.node); err != nil {
		return err
	}
	defer c.others.close()
	if c.before, err = c.node.state(ctx); err != nil {
		return err
	}
	began, err := c.startLost()
	if err != nil {
		return err
	}
	defer func() { _ = c.lost.Process.Kill(); _ = c.lost.Wait() }()
	half := func() bool { return c.others.owned("classic") == 3 && c.others.owned("kip848") == 3 }
	if _, err := c.node.Until(ctx, slack, "the members share the partitions", half); err != nil {
		return err
	}
	if err := c.cutOff(ctx); err != nil {
		return err
	}
	if err := c.consequences(ctx, began); err != nil {
		return err
	}
	return c.back(ctx)
}

// startLost starts the clients beyond the link and returns when their transaction began.
func (c *cut) startLost() (began time.Time, err error) {
	self, err := os.Executable()
	if err != nil {
		return began, err
	}
	c.lost = dyingWithMe(exec.Command("ip", "netns", "exec", c.namespace, self, "-beyond"))
	c.lost.Stderr = os.Stderr
	out, err := c.lost.StdoutPipe()
	if err != nil {
		return began, err
	}
	in, tell, err := os.Pipe()
	if err != nil {
		return began, err
	}
	c.lost.Stdin, c.tell = in, tell
	if err := c.lost.Start(); err != nil {
		return began, err
	}
	c.lines = bufio.NewScanner(out)
	said, err := c.hear("ready ")
	if err != nil {
		return began, errors.Join(err, c.lost.Process.Kill(), c.lost.Wait())
	}
	nanos, err := strconv.ParseInt(said, 10, 64)
	return time.Unix(0, nanos), err
}

// dyingWithMe makes a process end when this one ends.
func dyingWithMe(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// hear waits for a line of the clients beyond the link, and returns what is behind word.
func (c *cut) hear(word string) (string, error) {
	if !c.lines.Scan() {
		return "", fmt.Errorf("the clients beyond the link said nothing about %q: %v", word, c.lines.Err())
	}
	rest, ok := strings.CutPrefix(c.lines.Text(), word)
	if !ok {
		return "", fmt.Errorf("the clients beyond the link: %s", c.lines.Text())
	}
	return rest, nil
}

// link sets the clients' end of the link up or down.
func (c *cut) link(to string) error {
	out, err := exec.Command("ip", "-n", c.namespace, "link", "set", "cut", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("set the link %s: %w: %s", to, err, out)
	}
	return nil
}

// cutOff cuts the link and proves that nobody was told.
func (c *cut) cutOff(ctx context.Context) error {
	c.established, _ = c.node.established()
	if least := idleConnections + slowReaders; c.established < least {
		return fmt.Errorf("%d connections over the link, not even %d", c.established, least)
	}
	if err := c.link("down"); err != nil {
		return err
	}
	c.at = time.Now()
	waiting := func() bool { _, unacked := c.node.established(); return unacked >= slowReaders }
	if _, err := c.node.Until(ctx, 2*time.Second, "bytes in flight are not acknowledged", waiting); err != nil {
		return err
	}
	here, unacked := c.node.established()
	there, _ := established(c.lost.Process.Pid, serverIP)
	fmt.Printf("the link is cut: %d connections were over it, %d are still ESTABLISHED at the broker, %d at the clients, "+
		"%d with bytes in flight\n", c.established, here, there, unacked)
	if here < c.established || there < idleConnections {
		return errors.New("the cut closed connections: it is no half-open connection that is tested")
	}
	return nil
}

// consequences waits until the broker has drawn all of them.
func (c *cut) consequences(ctx context.Context, began time.Time) error {
	if err := c.others.mark(ctx); err != nil {
		return err
	}
	results := make(chan error, 4)
	for _, protocol := range []string{"classic", "kip848"} {
		go func() {
			all := func() bool { return c.others.owned(protocol) == sharedPartitions }
			results <- c.within(ctx, "the dead member of group "+protocol+" is expelled", all, c.at,
				sessionTimeout-2*time.Second, sessionTimeout+slack)
		}()
	}
	go func() {
		results <- c.within(ctx, "the open transaction is aborted", c.others.marked, began,
			transactionTimeout, transactionTimeout+slack)
	}()
	go func() {
		results <- c.letGo(ctx)
	}()
	var errs []error
	for range cap(results) {
		errs = append(errs, <-results)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.leftovers(ctx)
}

// within waits for a condition that has to come in a span of time.
func (c *cut) within(ctx context.Context, what string, is func() bool, since time.Time, least, most time.Duration) error {
	at, err := c.node.Until(ctx, time.Until(since.Add(most)), what, is)
	if err != nil {
		return err
	}
	took := at.Sub(since)
	fmt.Printf("%s after %.1f s\n", what, took.Seconds())
	if took < least {
		return fmt.Errorf("%s after %v, earlier than %v", what, took, least)
	}
	return nil
}

// letGo waits until no connection over the link is left.
func (c *cut) letGo(ctx context.Context) error {
	by, idle, all := "connections.max.idle.ms", idleTimeout, max(idleTimeout, stepTimeout)
	if c.node.keepalive {
		by, idle, all = "keepalive", keepaliveTimeout, keepaliveTimeout
	}
	down := func(to int) func() bool {
		return func() bool { n, _ := c.node.established(); return n <= to }
	}
	what := fmt.Sprintf("%d idle connections are let go by %s", idleConnections, by)
	if err := c.within(ctx, what, down(c.established-idleConnections), c.at, 0, idle+slack); err != nil {
		return err
	}
	return c.within(ctx, fmt.Sprintf("all %d connections are let go", c.established), down(0), c.at, 0, all+slack)
}

// leftovers looks at what the dead connections left, and at those that stayed.
func (c *cut) leftovers(ctx context.Context) error {
	var after state
	clean := func() bool {
		var err error
		after, err = c.node.state(ctx)
		return err == nil && after.descriptors <= c.before.descriptors+leftDescriptors &&
			after.goroutines <= c.before.goroutines+leftGoroutines && after.memory <= c.before.memory+leftMemory
	}
	_, err := c.node.Until(ctx, slack, "descriptors, goroutines and memory are as before", clean)
	fmt.Printf("descriptors %d, before %d; goroutines %d, before %d; memory %d MiB, before %d\n", after.descriptors,
		c.before.descriptors, after.goroutines, c.before.goroutines, after.memory>>20, c.before.memory>>20)
	return errors.Join(err, c.others.judge())
}

// back sets the link up again and looks how the clients go on.
func (c *cut) back(ctx context.Context) error {
	if err := c.link("up"); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c.tell, "the link is back"); err != nil {
		return err
	}
	said, err := c.hear("acknowledged ")
	if err != nil {
		return err
	}
	numbers, err := strconv.Atoi(said)
	if err != nil {
		return err
	}
	refusal, err := c.hear("commit refused: ")
	if err != nil {
		return err
	}
	fmt.Printf("the link is back: %d records of the idempotent producer are acknowledged; the transaction: %s\n", numbers,
		refusal)
	return c.others.readBack(ctx, numbers)
}
