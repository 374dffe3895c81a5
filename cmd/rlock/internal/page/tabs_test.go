package page

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// streaming returns how many streams are open.
func (s *Server) streaming() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// hide has a page believe that its tab is in the background, or is not.
func (p *tab) hide(hidden bool) {
	p.Helper()
	p.run(evaluate(`Object.defineProperty(document, "hidden", { configurable: true, value: ` + map[bool]string{true: "true", false: "false"}[hidden] +
		` }); document.dispatchEvent(new Event("visibilitychange"))`))
}

func TestTabsThatAreHiddenHaveNoStream(t *testing.T) {
	f := newFake(held("orders", "one:1"))
	s, ts := serve(t, f, Options{})
	for range 7 { // a browser has six connections to one server
		p := open(t, ts.URL)
		p.live()
		p.row("orders")
		p.hide(true)
		redistest.Eventually(t, "no stream", func() bool { return s.streaming() == 0 })
		p.run(evaluate(`heard -= 2 * SILENCE`), goTo("#/lock/"+idOf("orders")))
		p.await("the view of the lock", `view !== ""`)
		assert.True(t, get[bool](p, `events === null`))
	}
	p := open(t, ts.URL)
	p.live()
	p.hide(true)
	redistest.Eventually(t, "no stream", func() bool { return s.streaming() == 0 })
	f.set(held("invoices", "two:1"))
	p.hide(false)
	p.row("invoices")
	p.live()
	assert.Equal(t, 1, s.streaming())
}

// stuck is a source that frees nothing until its test ends.
type stuck struct {
	*fake
	end chan struct{}
}

func (s stuck) Free(ctx context.Context, _ string, _ ...string) (bool, error) {
	select {
	case <-s.end:
	case <-ctx.Done():
	}
	return false, ctx.Err()
}

func TestFreeingThatIsNotAnswered(t *testing.T) {
	f := stuck{newFake(held("orders", "one:1")), make(chan struct{})}
	_, ts := serve(t, f, Options{AllowFree: true, Token: "secret"})
	t.Cleanup(func() { close(f.end) })
	p := open(t, ts.URL+"/"+secret)
	p.row("orders")
	p.run(evaluate(`{ const real = AbortSignal.timeout; AbortSignal.timeout = (ms) => real.call(AbortSignal, ms / 50); }`))
	p.click("#rows a")
	p.click("#free")
	p.click("#do-free")
	p.await("the error", `document.querySelector("#result").textContent.includes("may or may not have been freed")`)
}

func TestAServerWithoutPlacesSaysSo(t *testing.T) {
	s, ts := serve(t, newFake(), Options{})
	for range maxStreams {
		s.enter()
	}
	leave := sync.OnceFunc(func() {
		for range maxStreams {
			s.exit()
		}
	})
	t.Cleanup(leave)
	p := open(t, ts.URL)
	p.await("why", `document.querySelector("#stale").textContent.includes("refuses: too many pages are open")`)
	leave()
	p.live()
}

func TestTimesThatAreNoDatesInABrowser(t *testing.T) {
	_, ts := serve(t, newFake(), Options{})
	p := open(t, ts.URL)
	p.live()
	assert.Equal(t, "?", get[string](p, `clock(9e18)`))
	assert.NotEqual(t, "?", get[string](p, `clock(Date.now())`))
}

// serveOutside serves a page at an address of the machine that is not loopback, and shows each request to a test.
func serveOutside(tb testing.TB, s *Server, see func(*http.Request)) (url string) {
	tb.Helper()
	addrs, err := net.InterfaceAddrs()
	require.NoError(tb, err)
	for _, addr := range addrs {
		ip, ok := addr.(*net.IPNet)
		if !ok || ip.IP.To4() == nil || ip.IP.IsLoopback() {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(ip.IP.String(), "0"))
		require.NoError(tb, err)
		ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { see(r); s.ServeHTTP(w, r) }))
		ts.Listener.Close()
		ts.Listener = listener
		ts.Start()
		tb.Cleanup(func() { s.Close(); ts.Close() })
		return ts.URL
	}
	tb.Skip("the machine has no other address than loopback")
	return ""
}

// TestFreeingInABrowserWithoutTLS calls the page by a name for which browsers do not say where a request is from.
func TestFreeingInABrowserWithoutTLS(t *testing.T) {
	f := newFake(held("orders", "one:1"))
	var sites []string
	s := New(f, Options{AllowFree: true, Token: "secret"})
	ts := serveOutside(t, s, func(r *http.Request) {
		if r.Method == http.MethodPost {
			sites = append(sites, r.Header.Get("Sec-Fetch-Site"))
		}
	})
	p := open(t, ts+"/"+secret)
	p.row("orders")
	p.click("#rows a")
	p.click("#free")
	p.click("#do-free")
	p.await("freed", `document.querySelector("#result").textContent.includes("was freed")`)
	assert.Equal(t, []string{""}, sites, "otherwise this tests nothing")
}
