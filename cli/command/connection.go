package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
)

// dialTimeout bounds how long a command waits for a broker that does not answer.
const dialTimeout = 5 * time.Second

// client connects to the broker of the settings. The first request tells whether it is there.
func (a *app) client(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	bootstrap := a.bootstrap()
	watch := &away{printer: a.printer}
	base := []kgo.Opt{
		kgo.WithHooks(watch),
		kgo.SeedBrokers(bootstrap...),
		kgo.ClientID("millstream-cli"),
		kgo.DialTimeout(dialTimeout),
		kgo.RetryTimeout(2 * dialTimeout),
		kgo.UnknownTopicRetries(0),
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, output.Usage("BAD_BOOTSTRAP",
			fmt.Sprintf("%q is not a broker address", strings.Join(bootstrap, ","))).WithCause(err).
			WithDo("use --bootstrap host:port")
	}
	pingCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := cl.Ping(pingCtx); err != nil {
		cl.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err() // Ctrl-C says nothing about the broker
		}
		return nil, unreachable(bootstrap, err)
	}
	watch.answered()
	return cl, nil
}

// bootstrap are the brokers to ask first.
func (a *app) bootstrap() []string {
	var all []string
	for one := range strings.SplitSeq(a.settings.GetString("bootstrap"), ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// admin connects and returns the administration client beside the plain one, which the caller
// closes.
func (a *app) admin(ctx context.Context) (*kadm.Client, *kgo.Client, error) {
	cl, err := a.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	return kadm.NewClient(cl), cl, nil
}

func unreachable(bootstrap []string, err error) error {
	return output.Environment("BROKER_UNREACHABLE",
		"no broker answers at "+strings.Join(bootstrap, ",")).WithCause(err).
		WithDo("start one with: millstream dev   or name another with --bootstrap host:port")
}

// explainBroker puts errors of the Kafka protocol and of the network into users' words.
func explainBroker(err error) *output.Error {
	var known *output.Error
	if errors.As(err, &known) {
		return known
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		e := output.Failure(code.Message, sentence(err, code))
		e.Why = code.Description
		e.Exit = exitOf(code)
		if errors.Is(code, kerr.InvalidTopicException) {
			e.Do = "a topic's name has 1 to 249 of the letters a-z and A-Z, digits, \".\", \"_\" and \"-\""
		}
		return e
	}
	var netErr *net.OpError
	if errors.As(err, &netErr) {
		return output.Environment("BROKER_UNREACHABLE", "the broker cannot be reached").
			WithCause(err)
	}
	return output.Explain(err)
}

// exitOf is the exit code of a refusal: a mistake of the caller, a conflict, or a failure.
func exitOf(code *kerr.Error) int {
	switch code {
	case kerr.InvalidTopicException, kerr.InvalidConfig, kerr.InvalidPartitions,
		kerr.InvalidReplicationFactor, kerr.InvalidGroupID:
		return output.ExitUsage
	case kerr.NonEmptyGroup, kerr.TopicAlreadyExists:
		return output.ExitConflict
	case kerr.RequestTimedOut, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.LeaderNotAvailable, kerr.BrokerNotAvailable:
		return output.ExitEnvironment
	}
	return output.ExitFailure
}

// sentence is the error's own words without the code's description, which becomes the reason.
func sentence(err error, code *kerr.Error) string {
	text := strings.TrimSuffix(err.Error(), code.Error())
	if text = strings.TrimSuffix(strings.TrimSpace(text), ":"); text != "" {
		return text
	}
	return "the broker refused the request"
}

// unknownTopic names the nearest existing topic, which is most often what was meant.
func unknownTopic(ctx context.Context, adm *kadm.Client, name string) *output.Error {
	e := output.Failure("UNKNOWN_TOPIC", fmt.Sprintf("there is no topic %q", name))
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return e
	}
	delete(topics, name) // the client may remember that it asked for it
	if best := nearest(name, topics.Names()); best != "" {
		return e.WithDo(fmt.Sprintf("did you mean %q?", best))
	}
	return e.WithDo("millstream topic ls lists the topics; millstream topic create " + name +
		" makes this one")
}

// topicsExist refuses the first name that no topic has.
func topicsExist(ctx context.Context, adm *kadm.Client, names []string) error {
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, name := range names {
		if !topics.Has(name) {
			return unknownTopic(ctx, adm, name)
		}
	}
	return nil
}

// nearest gives the candidate within an edit distance of a third of the name, or nothing.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		if d := editDistance(name, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
