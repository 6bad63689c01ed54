package command

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// completeTimeout bounds how long a shell waits for names while somebody types. Without an answer
// nothing is suggested and nothing is said.
const completeTimeout = 300 * time.Millisecond

// lookUp gives names that an argument may have.
type lookUp func(context.Context, *kgo.Client) []string

// addCompletions says which arguments of which commands are names in the cluster. Commands of
// several names take any number of them; the others one.
func (a *app) addCompletions(root *cobra.Command) {
	for path, names := range map[string]lookUp{
		"topic describe": topicNames, "topic alter": topicNames, "topic delete": topicNames,
		"consume": topicNames, "produce": topicNames,
		"group describe": groupNames, "group delete": groupNames,
		"pipeline status": pipelineNames, "pipeline stop": pipelineNames,
		"pipeline start": pipelineNames, "pipeline logs": pipelineNames,
		"replay run": pipelineNames, "replay status": pipelineNames, "replay verify": pipelineNames,
	} {
		cmd := mustFind(root, path)
		cmd.ValidArgsFunction = a.completer(cmd, names)
	}
	formats := cobra.FixedCompletions([]string{"table", "json", "ndjson", "yaml"},
		cobra.ShellCompDirectiveNoFileComp)
	if err := root.RegisterFlagCompletionFunc("output", formats); err != nil {
		panic("invariant: flag --output exists: " + err.Error())
	}
}

func (a *app) completer(cmd *cobra.Command, names lookUp) cobra.CompletionFunc {
	several := cmd.ValidateArgs([]string{"a", "b", "c"}) == nil
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveDefault // files, such as that of produce
		}
		if err := a.prepare(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		cl, err := a.client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cl.Close()
		found := slices.DeleteFunc(names(ctx, cl), func(name string) bool {
			return slices.Contains(args, name)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func topicNames(ctx context.Context, cl *kgo.Client) []string {
	topics, err := kadm.NewClient(cl).ListTopics(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, t := range topics.Sorted() {
		if !internalTopic(t) {
			names = append(names, t.Topic)
		}
	}
	return names
}

func groupNames(ctx context.Context, cl *kgo.Client) []string {
	groups, err := kadm.NewClient(cl).ListGroups(ctx)
	if err != nil {
		return nil
	}
	return groups.Groups()
}

// pipelineNames reads the control topic by itself: looking names up must not make it.
func pipelineNames(ctx context.Context, cl *kgo.Client) []string {
	_, end, err := logEdges(ctx, kadm.NewClient(cl), deploy.RevisionTopic)
	if err != nil || end == 0 {
		return nil
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		deploy.RevisionTopic: {0: kgo.NewOffset().AtStart()}})
	names := map[string]bool{}
	for next := int64(0); next < end; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil || len(fetches.Errors()) > 0 {
			return nil
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if name := string(r.Key); replayName.MatchString(name) {
				names[name] = r.Value != nil
			}
		})
	}
	return sortedTrue(names)
}

// sortedTrue gives the keys whose value is true.
func sortedTrue(set map[string]bool) []string {
	var keys []string
	for key, in := range set {
		if in {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
