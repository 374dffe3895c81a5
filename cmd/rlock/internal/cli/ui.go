package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/cmd/rlock/internal/deploy"
	"github.com/go-rlock/rlock/cmd/rlock/internal/page"
)

func (a *app) ui() *cobra.Command {
	var listen, prefix string
	var allowFree bool
	var hosts []string
	cmd := &cobra.Command{
		Use: "ui", Short: "Show the locks in a browser, live", Args: takes(),
		Long: `ui serves a page that shows the locks as ls does, live, with what has happened to each since the page was first opened. Redis is read while
a browser shows it. The page uses no network but this server.

The page can only read. With --allow-free it can free locks too, for whoever has the token in the address that ui prints. The token is
good until ui ends. The browser's history may keep it with the address.

ui listens on loopback. It has no TLS and no users, so put a proxy that has them before any other address. The page can be called by an
IP address and as localhost. Give any other name, such as that of the proxy, with --allowed-host.`,
		Example: "  rlock ui --prefix orders:\n  rlock ui --listen 127.0.0.1:8000 --allow-free\n  rlock ui --listen :8000 --allowed-host locks.example",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.ContainsFunc(hosts, func(host string) bool { return host == "" || strings.ContainsAny(host, ":/") }) {
				return usage(errors.New("--allowed-host takes a name without a scheme and without a port"))
			}
			rdb, locks, where, finish, err := a.open()
			if err != nil {
				return err
			}
			defer finish()
			return a.withSignals(func(ctx context.Context) error {
				check := func(ctx context.Context) (string, error) { return a.config.Check(ctx, rdb, where) }
				note, err := check(ctx)
				if errors.Is(err, deploy.ErrConfig) { // the page says if Redis is away
					return err
				}
				if note != "" {
					a.say("warning: %s", note)
				}
				return a.serve(ctx, a.catalog(rdb, locks), listen, page.Options{
					Prefix: prefix, Where: where, Check: check, AllowFree: allowFree, AllowedHosts: hosts, Logger: slog.New(&lines{a: a}),
				}, func(string) {})
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7070", "`host:port` to listen on; port 0 chooses one")
	cmd.Flags().StringVar(&prefix, "prefix", "", "show only names that begin with this")
	cmd.Flags().StringArrayVar(&hosts, "allowed-host", nil, "`NAME` by which browsers call the page; can be repeated")
	cmd.Flags().BoolVar(&allowFree, "allow-free", false, "let the page free locks")
	return cmd
}

// maxConns is how many connections browsers may have open at a time.
const maxConns = 256

// serve serves the page until ctx ends. It tells its address when it is ready.
func (a *app) serve(ctx context.Context, c *catalog.Catalog, listen string, opts page.Options, ready func(url string)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return usage(fmt.Errorf("--listen is %q: %s", listen, lastOf(err)))
	}
	fragment := ""
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		a.say("whoever can reach %s can see the locks", listener.Addr())
	}
	if opts.AllowFree {
		var secret [16]byte
		_, _ = rand.Read(secret[:]) // it never fails
		opts.Token = base64.RawURLEncoding.EncodeToString(secret[:])
		fragment = "#token=" + opts.Token
	}
	handler := page.New(c, opts)
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	stopped := context.AfterFunc(ctx, func() {
		handler.Close() // ends the streams, for which Shutdown would wait
		_ = server.Shutdown(context.Background())
	})
	defer stopped()
	url := fmt.Sprintf("http://%s/%s", page.Reachable(listener.Addr()), fragment)
	if err := a.print(a.stdout, url+"\n"); err != nil {
		return err
	}
	ready(url)
	if err := server.Serve(page.Limit(listener, maxConns)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	handler.Close()
	return nil
}
