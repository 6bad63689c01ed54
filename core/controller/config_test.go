package controller_test

import (
	"testing"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
)

func ptr(s string) *string { return &s }

func (n *node) alter(t *testing.T, r controller.ConfigResource, validateOnly bool) error {
	t.Helper()
	errs, err := n.AlterConfigs(t.Context(), []controller.ConfigResource{r}, validateOnly)
	require.NoError(t, err)
	require.Len(t, errs, 1)
	return errs[0]
}

func change(key string, op controller.ConfigOp, value string) controller.ConfigChange {
	return controller.ConfigChange{Key: key, Op: op, Value: ptr(value)}
}

func TestAlterTopicConfigs(t *testing.T) {
	n := start(t, nil)
	n.create(t, controller.CreateTopic{Name: "a", Partitions: 1, ReplicationFactor: 1,
		Configs: map[string]string{"retention.ms": "5"}})
	own := func() map[string]string {
		got, _ := n.Image().Topic("a")
		return got.Configs
	}
	alter := func(changes ...controller.ConfigChange) error {
		return n.alter(t, controller.ConfigResource{
			Type: controller.ResourceTopic, Name: "a", Changes: changes}, false)
	}
	require.NoError(t, alter(
		change("cleanup.policy", controller.OpAppend, "compact"), // the default is delete
		change("segment.bytes", controller.OpSet, "2097152"),
		controller.ConfigChange{Key: "retention.ms", Op: controller.OpDelete}))
	want := map[string]string{"cleanup.policy": "delete,compact", "segment.bytes": "2097152"}
	require.Equal(t, want, own())
	require.NoError(t, alter(change("cleanup.policy", controller.OpSubtract, "delete")))
	want["cleanup.policy"] = "compact"
	require.Equal(t, want, own())

	// A resource changes as a whole or not at all.
	err := alter(change("flush", controller.OpSet, "os"), change("segment.ms", controller.OpSet, "x"))
	require.ErrorIs(t, err, controller.ErrInvalidConfig)
	require.Equal(t, want, own())

	for _, c := range []struct {
		kind   error
		change controller.ConfigChange
	}{
		{controller.ErrInvalidConfig, change("nope", controller.OpSet, "1")},
		{controller.ErrInvalidConfig, change("segment.ms", controller.OpAppend, "1")},
		{controller.ErrInvalidConfig, change("cleanup.policy", controller.OpAppend, "nope")},
		{controller.ErrInvalidRequest, controller.ConfigChange{Key: "segment.ms"}},
		{controller.ErrInvalidRequest, change("segment.ms", 9, "1")},
	} {
		require.ErrorIs(t, alter(c.change), c.kind, "%+v", c.change)
	}
	dup := change("segment.ms", controller.OpSet, "1")
	require.ErrorIs(t, alter(dup, dup), controller.ErrInvalidRequest)
	require.Equal(t, want, own())

	require.NoError(t, n.alter(t, controller.ConfigResource{Type: controller.ResourceTopic,
		Name: "a", Changes: []controller.ConfigChange{dup}}, true))
	require.Equal(t, want, own())

	// The older AlterConfigs replaces: what it does not name goes back to the default.
	require.NoError(t, n.alter(t, controller.ConfigResource{Type: controller.ResourceTopic,
		Name: "a", Replace: true, Changes: []controller.ConfigChange{dup}}, false))
	require.Equal(t, map[string]string{"segment.ms": "1"}, own())

	for _, r := range []controller.ConfigResource{
		{Type: controller.ResourceTopic, Name: "b"}, {Type: 64, Name: "g"},
		{Type: controller.ResourceGroup},
	} {
		require.Error(t, n.alter(t, r, false))
	}
}

func TestAlterBrokerConfigs(t *testing.T) {
	n := start(t, nil)
	n.create(t, topic("a"))
	set := func(name, key, value string) error {
		return n.alter(t, controller.ConfigResource{Type: controller.ResourceBroker, Name: name,
			Changes: []controller.ConfigChange{change(key, controller.OpSet, value)}}, false)
	}
	retention := func() int64 {
		got, _ := n.Image().Topic("a")
		return n.Image().TopicSettings(got).RetentionMS
	}
	require.NoError(t, set("", "log.retention.ms", "7"))
	require.Equal(t, int64(7), retention())
	require.NoError(t, set("1", "log.retention.ms", "8"))
	require.Equal(t, int64(8), retention())
	require.ErrorIs(t, set("9", "log.retention.ms", "8"), controller.ErrInvalidRequest)
	require.ErrorIs(t, set("x", "log.retention.ms", "8"), controller.ErrInvalidRequest)
	require.ErrorIs(t, set("", "num.partitions", "8"), controller.ErrInvalidRequest)
	require.ErrorIs(t, set("", "log.retention.ms", "z"), controller.ErrInvalidConfig)
	require.NoError(t, n.alter(t, controller.ConfigResource{Type: controller.ResourceBroker,
		Name: "1", Changes: []controller.ConfigChange{
			{Key: "log.retention.ms", Op: controller.OpDelete}}}, false))
	require.Equal(t, int64(7), retention())
}

func TestDiskFullRefusesCommandsUntilThereIsSpace(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	n, err := open(t, fault, nil)
	require.NoError(t, err)
	defer n.close(t)
	n.register(t, 1)
	fault.SetSpace(0)
	_, err = n.CreateTopics(t.Context(), []controller.CreateTopic{topic("a")}, false)
	require.ErrorIs(t, err, controller.ErrNoSpace)
	fault.SetSpace(-1)
	require.NoError(t, n.create(t, topic("a"))[0].Err)
	require.NoError(t, n.Err())
}
