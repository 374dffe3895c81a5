package page

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// do sends a request to a page without a network.
func do(s *Server, method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestFilesHaveTheirTypesAndHeaders(t *testing.T) {
	s := New(newFake(), Options{})
	defer s.Close()
	for path, kind := range map[string]string{"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := do(s, method, path, "", nil)
			require.Equal(t, http.StatusOK, w.Code, path)
			h := w.Header()
			assert.Contains(t, h.Get("Content-Type"), kind)
			assert.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", h.Get("Content-Security-Policy"))
			assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
			assert.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
			assert.Equal(t, "no-store", h.Get("Cache-Control"))
			assert.Empty(t, h.Get("Set-Cookie"))
			assert.Equal(t, method == http.MethodHead, w.Body.Len() == 0)
		}
	}
	assert.Equal(t, http.StatusOK, do(s, http.MethodHead, "/events", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/web/page.js", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock=~x", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock=%00", "", nil).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock=%253a", "", nil).Code, "an id of which there is another form")
	assert.Equal(t, http.StatusBadRequest, do(s, http.MethodGet, "/events?q="+strings.Repeat("x", maxQuery+1), "", nil).Code)
}

func TestTheDocumentHasNothingInline(t *testing.T) {
	html, err := web.ReadFile("web/page.html")
	require.NoError(t, err)
	assert.NotContains(t, string(html), "style=")
	assert.NotContains(t, string(html), "<style")
	assert.NotRegexp(t, `<script[^>]*>[^<]`, string(html))
	assert.NotRegexp(t, `\son[a-z]+=`, string(html))
	script, err := web.ReadFile("web/page.js")
	require.NoError(t, err)
	for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc", "DOMParser", "localStorage", "cookie"} {
		assert.NotContains(t, string(script), unsafe)
	}
}

func TestOnlyGetAndHead(t *testing.T) {
	s := New(newFake(), Options{AllowFree: true, Token: "t"})
	defer s.Close()
	for _, path := range []string{"/", "/page.css", "/page.js", "/events"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch} {
			assert.Equal(t, http.StatusMethodNotAllowed, do(s, method, path, "", nil).Code, "%s %s", method, path)
		}
	}
	assert.Equal(t, http.StatusMethodNotAllowed, do(s, http.MethodGet, "/free", "", nil).Code)
}

func TestOtherNamesOfTheHostAreRefused(t *testing.T) {
	s := New(newFake(), Options{})
	defer s.Close()
	for _, host := range []string{
		"localhost", "localhost:7070", "LOCALHOST:7070", "127.0.0.1:7070", "[::1]:7070", "[::1]", "127.0.0.1", "127.0.1.1:7070", "10.1.2.3:80",
	} {
		assert.Equal(t, http.StatusOK, do(s, http.MethodGet, "/", "", map[string]string{"Host": host}).Code, host)
	}
	for _, host := range []string{"", "evil.example", "evil.example:7070", "127.0.0.1.evil.example", "localhost.evil.example:7070", "locks"} {
		for _, path := range []string{"/", "/events"} {
			assert.Equal(t, http.StatusMisdirectedRequest, do(s, http.MethodGet, path, "", map[string]string{"Host": host}).Code, host)
		}
	}
	named := New(newFake(), Options{AllowedHosts: []string{"locks.example", "other.example"}})
	defer named.Close()
	for host, code := range map[string]int{
		"locks.example": http.StatusOK, "Locks.Example:80": http.StatusOK, "other.example": http.StatusOK, "10.1.2.3:8080": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "a.locks.example": http.StatusMisdirectedRequest,
	} {
		assert.Equal(t, code, do(named, http.MethodGet, "/", "", map[string]string{"Host": host}).Code, host)
	}
}

func TestOtherSitesCannotUseThePage(t *testing.T) {
	s := New(newFake(), Options{})
	defer s.Close()
	site := func(site, mode string) map[string]string {
		return map[string]string{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
	}
	assert.Equal(t, http.StatusForbidden, do(s, http.MethodGet, "/events", "", site("cross-site", "cors")).Code)
	assert.Equal(t, http.StatusForbidden, do(s, http.MethodGet, "/page.js", "", site("same-site", "no-cors")).Code)
	assert.Equal(t, http.StatusOK, do(s, http.MethodGet, "/", "", site("cross-site", "navigate")).Code, "a link")
	assert.Equal(t, http.StatusOK, do(s, http.MethodHead, "/events", "", site("same-origin", "cors")).Code)
	assert.Equal(t, http.StatusForbidden, do(s, http.MethodHead, "/events", "", site("none", "navigate")).Code, "only the page reads them")
	// Without TLS, browsers say where a request is from to loopback only.
	assert.Equal(t, http.StatusForbidden, do(s, http.MethodHead, "/events", "", map[string]string{"Origin": "http://evil.example"}).Code)
	assert.Equal(t, http.StatusOK, do(s, http.MethodHead, "/events", "", map[string]string{"Host": "10.1.2.3", "Origin": "http://10.1.2.3"}).Code)
}

func TestFreeingWithoutTLSAndBehindAProxy(t *testing.T) {
	f := newFake()
	s := New(f, Options{AllowFree: true, Token: "secret", AllowedHosts: []string{"locks.example"}})
	defer s.Close()
	for _, of := range []map[string]string{
		{"Host": "10.1.2.3:7070", "Origin": "http://10.1.2.3:7070"},
		{"Host": "locks.example:7070", "Origin": "http://locks.example:7070"},
		{"Host": "127.0.0.1:7070", "Origin": "https://locks.example"},     // a proxy that says its own name of the server
		{"Host": "locks.example", "Origin": "https://locks.example:8443"}, // or leaves out the port
		{"Host": "locks.example", "Origin": "https://locks.example", "Sec-Fetch-Site": "same-origin"},
	} {
		f.set(held("orders", "client:1"))
		of[tokenHeader] = "secret"
		assert.Equal(t, http.StatusOK, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), of).Code, of)
		f.set(held("orders", "client:1"))
		of["Sec-Fetch-Site"] = "cross-site"
		assert.Equal(t, http.StatusForbidden, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), of).Code, of)
	}
}

const body = `{"id":"orders","refs":["%s"]}`

func freeing(ref string) string { return strings.Replace(body, "%s", ref, 1) }

func honest() map[string]string {
	return map[string]string{"Host": "127.0.0.1:7070", "Origin": "http://127.0.0.1:7070", "Sec-Fetch-Site": "same-origin", tokenHeader: "secret"}
}

func TestWithoutAllowFreeThereIsNoPost(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	for _, opts := range []Options{{}, {Token: "secret"}, {AllowFree: true}} {
		s := New(f, opts)
		assert.Equal(t, http.StatusNotFound, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest()).Code)
		s.Close()
	}
	assert.Empty(t, f.freed)
}

func TestForeignRequestsFreeNothing(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	s := New(f, Options{AllowFree: true, Token: "secret"})
	defer s.Close()
	for header, values := range map[string][]string{
		"Origin":         {"", "null", "http://evil.example", "http://127.0.0.1:7071", "ftp://127.0.0.1:7070", "127.0.0.1:7070"},
		"Sec-Fetch-Site": {"cross-site", "same-site", "none"},
		tokenHeader:      {"", "Secret", "secret2", "secre"},
	} {
		for _, value := range values {
			headers := honest()
			headers[header] = value
			if value == "" {
				delete(headers, header)
			}
			w := do(s, http.MethodPost, "/free", freeing(refOf("client:1")), headers)
			assert.Equal(t, http.StatusForbidden, w.Code, "%s: %s", header, value)
		}
	}
	assert.Empty(t, f.freed)
}

func TestFreeComparesTheHolder(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	s := New(f, Options{AllowFree: true, Token: "secret"})
	defer s.Close()
	for _, refs := range []string{refOf("client:2"), "", refOf("client:1") + `","` + refOf("client:2")} {
		w := do(s, http.MethodPost, "/free", freeing(refs), honest())
		if strings.Contains(refs, ",") {
			assert.Equal(t, http.StatusOK, w.Code, "one of the holders has left meanwhile")
			f.set(held("orders", "client:1"))
			continue
		}
		assert.Equal(t, http.StatusConflict, w.Code)
		assert.Contains(t, w.Body.String(), "its holder has changed")
	}
	w := do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest())
	assert.Equal(t, http.StatusOK, w.Code)
	assert.JSONEq(t, `{"freed":true}`, w.Body.String())
	assert.Equal(t, http.StatusConflict, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest()).Code, "it is free now")

	f.set(held("orders", "client:1"))
	f.fail(errAway)
	w = do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest())
	assert.Equal(t, http.StatusBadGateway, w.Code)
	assert.Contains(t, w.Body.String(), "connection refused")
	for _, bad := range []string{"", "{", `{"id":1}`, `{"id":"orders","refs":["` + strings.Repeat("x", maxBody) + `"]}`} {
		assert.Equal(t, http.StatusBadRequest, do(s, http.MethodPost, "/free", bad, honest()).Code)
	}
}

func TestFreeingIsLogged(t *testing.T) {
	f := newFake(held("orders", "0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00:7"))
	var logged bytes.Buffer
	s := New(f, Options{AllowFree: true, Token: "secret", Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	defer s.Close()
	w := do(s, http.MethodPost, "/free", freeing(refOf("0b5e7a52-7d8e-4f66-8a5c-1c8e4c6a8f00:7")), honest())
	require.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, logged.String(), `level=WARN msg="rlock ui: a lock was freed" lock=orders remote=192.0.2.1:1234 from=0b5e7a52:7`)
	assert.NotContains(t, logged.String(), "4f66", "whoever knows the whole holder could free its locks")
}

func TestABodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	_, ts := serve(t, newFake(), Options{AllowFree: true, Token: "secret"})
	var conns []net.Conn
	for _, path := range []string{"/free", "/"} {
		conn, err := net.Dial("tcp", ts.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n%s: secret\r\nContent-Length: 100\r\n\r\n", path, tokenHeader)
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(bodyWait+15*time.Second)))
		_, err := io.ReadAll(conn)
		require.NoError(t, err, "the server ends the connection")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := Limit(inner, 1)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		require.Fail(t, "two at a time")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // counts once
	second := <-accepted
	require.NoError(t, l.Close())
	_, open := <-accepted
	assert.False(t, open, "Close ends an Accept that waits")
	second.Close()
}

func TestTheAddressThatIsPrintedCanBeReached(t *testing.T) {
	s := New(newFake(), Options{})
	defer s.Close()
	for listen, want := range map[string]string{
		"0.0.0.0": "127.0.0.1:7070", "::": "127.0.0.1:7070", "127.0.0.1": "127.0.0.1:7070", "127.0.1.1": "127.0.1.1:7070", "::1": "[::1]:7070",
	} {
		got := Reachable(&net.TCPAddr{IP: net.ParseIP(listen), Port: 7070})
		assert.Equal(t, want, got)
		assert.Equal(t, http.StatusOK, do(s, http.MethodGet, "/", "", map[string]string{"Host": got}).Code, got)
	}
}

func TestNothingOutsideThePrefix(t *testing.T) {
	f := newFake(held("orders", "client:1"))
	s := New(f, Options{AllowFree: true, Token: "secret", Prefix: "jobs:"})
	defer s.Close()
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodPost, "/free", freeing(refOf("client:1")), honest()).Code)
	assert.Equal(t, http.StatusNotFound, do(s, http.MethodGet, "/events?lock="+idOf("orders"), "", nil).Code)
	assert.Empty(t, f.freed)
}
