package cli

import (
	"context"
	"errors"
	"os/exec"
	"runtime"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/go-rlock/rlock/cmd/rlock/internal/demo"
	"github.com/go-rlock/rlock/cmd/rlock/internal/page"
)

func (a *app) demo() *cobra.Command {
	var listen string
	var quiet bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Show a ticket office at work, in a browser and without a Redis", Args: takes(),
		Long: `demo has a Redis of its own, which is gone when it ends. Five counters sell the tickets of an evening under one lock, and others use the
other kinds. The page of rlock ui shows them, and may free them. In another terminal, look with the address that demo prints.`,
		Example: "  rlock demo\n  rlock ls --all --watch --addr 127.0.0.1:40123   # in another terminal, with the port that demo prints",
		RunE: func(*cobra.Command, []string) error {
			addr, stop, err := demo.Redis()
			if err != nil {
				return err
			}
			defer stop()
			a.config.URL, a.config.Addrs = "redis://"+addr, nil
			rdb, locks, _, finish, err := a.open()
			if err != nil {
				return err
			}
			defer finish()
			office := redis.NewClient(&redis.Options{Addr: addr})
			defer func() { _ = office.Close() }()
			return a.withSignals(func(ctx context.Context) error {
				ctx, cancel := context.WithCancel(ctx)
				ended := make(chan error, 1)
				go func() { ended <- demo.Office(ctx, office, a.say); cancel() }()
				a.say("look with: rlock ls --all --addr %s. Ctrl-C ends the demo", addr)
				err := a.serve(ctx, a.catalog(rdb, locks), listen, page.Options{Title: "rlock demo", Where: addr, AllowFree: true}, func(url string) {
					if !quiet {
						browse(url)
					}
				})
				cancel()
				return errors.Join(err, <-ended)
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "`host:port` to listen on; port 0 chooses one")
	cmd.Flags().BoolVar(&quiet, "no-browser", false, "only print the address of the page")
	return cmd
}

// browse opens a page in the browser of the desktop, if there is one.
func browse(url string) {
	by := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if by == nil {
		by = []string{"xdg-open"}
	}
	if cmd := exec.CommandContext(context.Background(), by[0], append(by[1:], url)...); cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
