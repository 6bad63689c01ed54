package vnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream-io/millstream/core/vnet"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// networks are the implementations that must behave alike.
var networks = map[string]func() vnet.Network{
	"tcp":  vnet.TCP,
	"pipe": func() vnet.Network { return vnet.NewPipe() },
}

func each(t *testing.T, test func(t *testing.T, n vnet.Network)) {
	for name, open := range networks {
		t.Run(name, func(t *testing.T) { test(t, open()) })
	}
}

// connect returns both ends of a connection, closed at the end of the test.
func connect(t *testing.T, n vnet.Network) (client, server net.Conn) {
	t.Helper()
	l, err := n.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err = n.Dial(context.Background(), l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestConnCarriesBytesInOrderBothWays(t *testing.T) {
	each(t, func(t *testing.T, n vnet.Network) {
		client, server := connect(t, n)
		sent := make([]byte, 3<<20) // far more than any buffer
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range sent {
			sent[i] = byte(rng.Uint32())
		}
		done := make(chan error, 1)
		go func() {
			_, err := io.Copy(server, server)
			server.Close()
			done <- err
		}()
		go func() {
			for rest := sent; len(rest) > 0; {
				chunk := rest[:min(len(rest), 1+rng.IntN(100_000))]
				rest = rest[len(chunk):]
				if _, err := client.Write(chunk); err != nil {
					return
				}
			}
			client.(interface{ CloseWrite() error }).CloseWrite()
		}()
		got, err := io.ReadAll(client)
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.True(t, bytes.Equal(sent, got))
	})
}

func TestReadAfterPeerClosedDrainsThenEOF(t *testing.T) {
	each(t, func(t *testing.T, n vnet.Network) {
		client, server := connect(t, n)
		_, err := client.Write([]byte("last words"))
		require.NoError(t, err)
		require.NoError(t, client.Close())
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, "last words", string(got))
	})
}

func TestOwnClosedConnIsErrClosed(t *testing.T) {
	each(t, func(t *testing.T, n vnet.Network) {
		client, _ := connect(t, n)
		require.NoError(t, client.Close())
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestCloseWakesReader(t *testing.T) {
	each(t, func(t *testing.T, n vnet.Network) {
		client, _ := connect(t, n)
		got := make(chan error, 1)
		go func() {
			_, err := client.Read(make([]byte, 1))
			got <- err
		}()
		client.Close()
		require.ErrorIs(t, <-got, net.ErrClosed)
	})
}

func TestReadEndsAtItsDeadline(t *testing.T) {
	each(t, func(t *testing.T, n vnet.Network) {
		client, server := connect(t, n)
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var netErr net.Error
		require.ErrorAs(t, err, &netErr)
		require.True(t, netErr.Timeout())
		// A connection outlives its deadline.
		require.NoError(t, client.SetReadDeadline(time.Time{}))
		_, err = server.Write([]byte("x"))
		require.NoError(t, err)
		_, err = client.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}

func TestPastDeadlineWakesReaderAlreadyWaiting(t *testing.T) {
	// net/http and franz-go end a blocked read this way.
	each(t, func(t *testing.T, n vnet.Network) {
		client, _ := connect(t, n)
		got := make(chan error, 1)
		go func() {
			_, err := client.Read(make([]byte, 1))
			got <- err
		}()
		require.NoError(t, client.SetDeadline(time.Unix(1, 0)))
		require.ErrorIs(t, <-got, os.ErrDeadlineExceeded)
	})
}

func TestListenRefusesATakenAddress(t *testing.T) {
	each(t, func(t *testing.T, n vnet.Network) {
		l, err := n.Listen(context.Background(), "127.0.0.1:0")
		require.NoError(t, err)
		addr := l.Addr().String()
		_, err = n.Listen(context.Background(), addr)
		require.ErrorIs(t, err, syscall.EADDRINUSE)

		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-accepted, net.ErrClosed)
		_, err = n.Dial(context.Background(), addr)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		l, err = n.Listen(context.Background(), addr) // free again
		require.NoError(t, err)
		require.NoError(t, l.Close())

		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err = n.Dial(ctx, addr)
		require.Error(t, err)
	})
}

func TestPipeClosesUnacceptedConnections(t *testing.T) {
	n := vnet.NewPipe()
	l, err := n.Listen(context.Background(), "node:9092")
	require.NoError(t, err)
	c, err := n.Dial(context.Background(), "node:9092")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = c.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
}

func TestPipeWriteWaitsForRoomInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t, vnet.NewPipe())
		wrote := make(chan int, 1)
		go func() {
			n, err := client.Write(make([]byte, 1<<20))
			require.NoError(t, err)
			wrote <- n
		}()
		synctest.Wait() // the writer is durably blocked on a full buffer
		require.Empty(t, wrote)
		n, err := io.ReadFull(server, make([]byte, 1<<20))
		require.NoError(t, err)
		require.Equal(t, 1<<20, n)
		require.Equal(t, 1<<20, <-wrote)

		require.NoError(t, client.SetWriteDeadline(time.Now().Add(time.Hour)))
		start := time.Now()
		_, err = client.Write(make([]byte, 1<<20))
		require.True(t, errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
		require.Equal(t, time.Hour, time.Since(start)) // the bubble's clock
	})
}

func TestPipeDeadlineEndsEachOfSeveralReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(t, vnet.NewPipe())
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Minute)))
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := client.Read(make([]byte, 1))
				errs <- err
			}()
		}
		synctest.Wait()
		_, err := server.Write([]byte("x")) // one of them is served, and leaves the others waiting
		require.NoError(t, err)
		require.NoError(t, <-errs)
		require.ErrorIs(t, <-errs, os.ErrDeadlineExceeded)
		require.ErrorIs(t, <-errs, os.ErrDeadlineExceeded)
	})
}

func TestPipeCarriesHTTPInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := vnet.NewPipe()
		l, err := n.Listen(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		srv := &http.Server{
			ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(w, r.Body)
			}),
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				return n.Dial(ctx, addr)
			},
		}
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		resp, err := client.Post("http://"+l.Addr().String(), "", bytes.NewReader([]byte("ping")))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "ping", string(body))
		transport.CloseIdleConnections()
		require.NoError(t, srv.Shutdown(t.Context()))
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

func BenchmarkPipeEcho(b *testing.B) {
	n := vnet.NewPipe()
	l, err := n.Listen(context.Background(), "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	client, err := n.Dial(context.Background(), l.Addr().String())
	require.NoError(b, err)
	server, err := l.Accept()
	require.NoError(b, err)
	go func() {
		io.Copy(server, server)
		server.Close()
	}()
	defer client.Close()
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run("size="+byteSize(size), func(b *testing.B) {
			buf := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func byteSize(n int) string {
	if n >= 64<<10 {
		return "64KiB"
	}
	return "1KiB"
}
