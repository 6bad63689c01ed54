package controller_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
)

// openOS opens a controller on the disk, as a node does.
func openOS(b *testing.B, dir string) *node {
	d, err := storage.OpenDir(b.Context(), storage.DirOptions{Path: dir, NodeID: 1})
	require.NoError(b, err)
	log, err := raft.OpenLog(d)
	require.NoError(b, err)
	c, err := controller.Open(b.Context(), controller.Options{NodeID: 1,
		Raft: raft.Options{FS: vfs.OS(), Dir: filepath.Join(dir, "raft"), Log: log}})
	require.NoError(b, err)
	return &node{c, d}
}

func (n *node) closeOS(b *testing.B) {
	require.NoError(b, n.Controller.Close())
	require.NoError(b, n.dir.Close())
}

// BenchmarkOpen is the metadata's part of a node's start.
func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			openOS(b, b.TempDir()).closeOS(b)
		}
	})
	b.Run("topics=1000", func(b *testing.B) {
		dir := b.TempDir()
		n := openOS(b, dir)
		benchCreate(b, n, 0, 1000)
		n.closeOS(b)
		for b.Loop() {
			openOS(b, dir).closeOS(b)
		}
	})
}

func benchCreate(b *testing.B, n *node, from, count int) {
	if from == 0 {
		_, err := n.RegisterBroker(b.Context(), controller.Registration{
			Broker: metadata.Broker{ID: 1, Host: "h", Port: 1}})
		require.NoError(b, err)
	}
	var topics []controller.CreateTopic
	for i := range count {
		topics = append(topics, topic(fmt.Sprintf("topic-%d", from+i)))
	}
	rs, err := n.CreateTopics(b.Context(), topics, false)
	require.NoError(b, err)
	require.NoError(b, rs[0].Err)
}

func BenchmarkCreateTopic(b *testing.B) {
	n := openOS(b, b.TempDir())
	defer n.closeOS(b)
	benchCreate(b, n, 0, 1)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		benchCreate(b, n, i, 1)
	}
}
