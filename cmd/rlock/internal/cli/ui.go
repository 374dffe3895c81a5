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
	"time"

	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/catalog"
	"github.com/go-rlock/rlock/cmd/rlock/internal/page"
)

func (a *app) ui() *cobra.Command {
	var listen, prefix string
	var allowFree bool
	cmd := &cobra.Command{
		Use: "ui", Short: "Show the locks in a browser, live", Args: cobra.NoArgs,
		Long: `ui serves a page that shows the locks as ls does, live, with what has happened to each since the page was first opened. Redis is read while
a browser shows it. The page uses no network but this server.

The page can only read. With --allow-free it can free locks too, for whoever has the token in the address that ui prints. ui listens on
loopback. It has no TLS and no users, so put a proxy that has them before any other address.`,
		Example: "  rlock ui --prefix orders:\n  rlock ui --listen 127.0.0.1:8000 --allow-free",
		RunE: func(cmd *cobra.Command, _ []string) error {
			rdb, locks, where, finish, err := a.open()
			if err != nil {
				return err
			}
			defer finish()
			return a.withSignals(func(ctx context.Context) error {
				return a.serve(ctx, catalog.New(rdb, locks, a.keyPrefix), listen, page.Options{
					Prefix: prefix, Where: where, AllowFree: allowFree, Logger: slog.New(&lines{a: a}),
				})
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7070", "`host:port` to listen on; port 0 chooses one")
	cmd.Flags().StringVar(&prefix, "prefix", "", "show only names that begin with this")
	cmd.Flags().BoolVar(&allowFree, "allow-free", false, "let the page free locks")
	return cmd
}

// serve serves the page until ctx ends.
func (a *app) serve(ctx context.Context, c *catalog.Catalog, listen string, opts page.Options) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return usage(err)
	}
	address, fragment := listener.Addr().String(), ""
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		opts.AllowedHosts = page.LoopbackHosts()
	} else {
		a.say("whoever can reach %s can see the locks", address)
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
	if err := a.print(a.stdout, fmt.Sprintf("http://%s/%s\n", address, fragment)); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	handler.Close()
	return nil
}
