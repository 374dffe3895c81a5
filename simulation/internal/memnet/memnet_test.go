package memnet

import (
	"context"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pair connects to a new listener, in a bubble.
func pair(t *testing.T, test func(t *testing.T, client, server net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l, err := Listen(NewPort())
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }()
		client, err := DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		server, err := l.Accept()
		require.NoError(t, err)
		defer func() { _, _ = client.Close(), server.Close() }()
		require.Equal(t, client.LocalAddr(), server.RemoteAddr())
		require.Equal(t, l.Addr(), client.RemoteAddr())
		test(t, client, server)
	})
}

func TestBytesArriveInOrder(t *testing.T) {
	pair(t, func(t *testing.T, client, server net.Conn) {
		t.Helper()
		go func() {
			for i := range 100 {
				_, _ = client.Write([]byte{byte(i), byte(i)})
			}
			_ = client.Close()
		}()
		all, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Len(t, all, 200)
		for i, b := range all {
			require.EqualValues(t, i/2, b)
		}
		_, err = server.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE, "nobody reads it")
	})
}

func TestEveryTransmissionTakesTime(t *testing.T) {
	Latency = time.Second
	defer func() { Latency = 0 }()
	pair(t, func(t *testing.T, client, server net.Conn) {
		t.Helper()
		began, last := time.Now(), time.Duration(0)
		for range 100 {
			_, err := client.Write([]byte("x"))
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began), "a write does not wait")
		for range 100 {
			_, err := server.Read(make([]byte, 1))
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(began), last)
			last = time.Since(began)
		}
		require.InDelta(t, time.Second, last, float64(500*time.Millisecond))
	})
}

func TestDeadlines(t *testing.T) {
	pair(t, func(t *testing.T, client, _ net.Conn) {
		t.Helper()
		began := time.Now()
		require.NoError(t, client.SetReadDeadline(began.Add(time.Hour)))
		time.AfterFunc(time.Second, func() { _ = client.SetDeadline(began.Add(time.Minute)) })
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, time.Minute, time.Since(began), "a read under way learns of a new deadline")
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, client.SetDeadline(time.Time{}))
		_, err = client.Write([]byte("x"))
		require.NoError(t, err)
	})
}

func TestCloseEndsARead(t *testing.T) {
	pair(t, func(t *testing.T, client, server net.Conn) {
		t.Helper()
		time.AfterFunc(time.Second, func() { _ = client.Close() })
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestWhatNobodyHasAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Listen(NewPort())
		require.NoError(t, err)
		_, err = Listen(l.Addr().(*net.TCPAddr).Port)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		client, err := DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err, "the kernel connects")
		_, err = client.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, l.Close())
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = DialContext(t.Context(), "tcp", l.Addr().String())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

func TestADialEndsWithItsContext(t *testing.T) {
	Latency = time.Hour
	defer func() { Latency = 0 }()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		_, err := DialContext(ctx, "tcp", "127.0.0.1:1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
