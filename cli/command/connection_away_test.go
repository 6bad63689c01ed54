package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
)

// TestABrokerThatGoesAwayIsNamed: once, again after half a minute, and when it is back; what ends a
// command, or is closed for being idle, is no word worth.
func TestABrokerThatGoesAwayIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		w := &away{printer: &output.Printer{Err: &said}}
		to := kgo.BrokerMetadata{Host: "log", Port: 9092}
		failed := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
		heard := func() string { defer said.Reset(); return said.String() }

		w.OnBrokerConnect(to, 0, nil, failed)
		require.Empty(t, heard(), "the command itself says that there is none")
		w.answered()
		w.OnBrokerRead(to, 0, 0, 0, 0, io.EOF)
		w.OnBrokerConnect(to, 0, nil, context.Canceled)
		w.OnBrokerConnect(to, 0, nil, &net.OpError{Op: "dial", Err: net.ErrClosed})
		w.OnBrokerConnect(to, 0, nil, &net.OpError{Op: "dial", Err: context.Canceled})
		w.OnBrokerConnect(to, 0, nil, nil)
		require.Empty(t, heard())

		w.OnBrokerRead(to, 0, 0, 0, 0, failed)
		require.Equal(t, "the broker at log:9092 does not answer, it is tried again (Ctrl-C ends): "+
			"read: i/o timeout\n", heard())
		time.Sleep(29 * time.Second)
		w.OnBrokerConnect(to, 0, nil, &net.OpError{Op: "dial", Err: errors.New("no route")})
		require.Empty(t, heard(), "said less than half a minute ago")
		time.Sleep(time.Second)
		w.OnBrokerConnect(to, 0, nil, &net.OpError{Op: "dial", Err: errors.New("no route")})
		require.Contains(t, heard(), "does not answer")
		time.Sleep(10 * time.Second)
		w.OnBrokerConnect(to, 0, nil, nil)
		require.Equal(t, "the broker answers again, after 40s\n", heard())
		w.OnBrokerConnect(to, 0, nil, nil)
		require.Empty(t, heard())
	})
}
