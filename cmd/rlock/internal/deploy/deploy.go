// Package deploy opens the Redis that a user of the command names by flags and by the environment.
//
// Passwords come from files and from the environment. They are in no error and in no description. A URL may have one too; whoever can list
// the processes of the machine then sees it, if the URL is given as a flag.
package deploy

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config says which Redis it is, and how to reach it. The zero value is that of REDIS_URL, or the one at localhost:6379.
type Config struct {
	// URL is redis://, rediss:// or unix://. The default is the environment's REDIS_URL, and without that redis://localhost:6379.
	URL string
	// Addrs are hosts with ports. They take the place of the URL's host: nodes of a cluster, Sentinels, or a single server.
	Addrs []string
	// Cluster means that it is a Redis Cluster. SentinelMaster is the name of a master that Sentinels know.
	Cluster        bool
	SentinelMaster string
	// User takes the place of the URL's, and that of REDIS_USERNAME. The password is in PasswordFile, in the URL, or in REDIS_PASSWORD.
	User, PasswordFile string
	// SentinelUser and SentinelPasswordFile are for the Sentinels; the password may also be in REDIS_SENTINEL_PASSWORD.
	SentinelUser, SentinelPasswordFile string
	// TLS uses TLS, as rediss:// does. The files are PEM; ServerName is what the certificate must be for, if that is not the host.
	TLS                       bool
	CAFile, CertFile, KeyFile string
	ServerName                string
	// Timeout limits how long a connection with its TLS handshake may take, and how long a reply. Nothing is tried twice.
	Timeout time.Duration
}

// ErrConfig means that a Config cannot work. Nothing was sent.
var ErrConfig = errors.New("invalid connection")

// Open returns a client, and a description of the deployment without passwords. It sends nothing. getenv is [os.Getenv], or the like.
func (c Config) Open(getenv func(string) string) (rdb redis.UniversalClient, where string, err error) {
	opt, err := parse(cmp.Or(c.URL, getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return nil, "", err
	}
	opt.Username = cmp.Or(c.User, opt.Username, getenv("REDIS_USERNAME"))
	if opt.Password, err = secret(c.PasswordFile, opt.Password, getenv("REDIS_PASSWORD")); err != nil {
		return nil, "", err
	}
	sentinelPassword, err := secret(c.SentinelPasswordFile, "", getenv("REDIS_SENTINEL_PASSWORD"))
	if err != nil {
		return nil, "", err
	}
	if err := c.secure(opt); err != nil {
		return nil, "", err
	}
	addrs := c.Addrs
	if len(addrs) == 0 {
		addrs = []string{opt.Addr}
	}
	for _, addr := range c.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, "", fmt.Errorf("%w: %w: it is like host:6379", ErrConfig, err)
		}
	}
	switch {
	case c.Cluster && c.SentinelMaster != "":
		return nil, "", fmt.Errorf("%w: a cluster has no Sentinels", ErrConfig)
	case c.Cluster && opt.DB != 0:
		return nil, "", fmt.Errorf("%w: a cluster has only database 0", ErrConfig)
	case !c.Cluster && c.SentinelMaster == "" && len(addrs) > 1:
		return nil, "", fmt.Errorf("%w: several addresses are for a cluster or for Sentinels", ErrConfig)
	case opt.Network == "unix" && (c.Cluster || c.SentinelMaster != ""):
		return nil, "", fmt.Errorf("%w: a unix socket leads to a single server", ErrConfig)
	}
	const never, once = -1, 1 // so that nothing takes longer than the timeout
	dialer := dial(c.Timeout, opt.TLSConfig)
	switch {
	case c.Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Username: opt.Username, Password: opt.Password, TLSConfig: opt.TLSConfig,
			DialTimeout: c.Timeout, ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, MaxRedirects: 3,
			Dialer: dialer, DialerRetries: once, ContextTimeoutEnabled: true,
		}), "cluster " + strings.Join(addrs, ","), nil
	case c.SentinelMaster != "":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: c.SentinelMaster, SentinelAddrs: addrs, SentinelUsername: c.SentinelUser, SentinelPassword: sentinelPassword,
			Username: opt.Username, Password: opt.Password, DB: opt.DB, TLSConfig: opt.TLSConfig,
			DialTimeout: c.Timeout, ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, MaxRetries: never,
			Dialer: dialer, DialerRetries: once, ContextTimeoutEnabled: true,
		}), fmt.Sprintf("%s of %s", c.SentinelMaster, strings.Join(addrs, ",")), nil
	}
	opt.Addr, opt.MaxRetries = addrs[0], never
	opt.Dialer, opt.DialerRetries, opt.ContextTimeoutEnabled = dialer, once, true
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = c.Timeout, c.Timeout, c.Timeout
	where = opt.Addr
	if opt.DB != 0 {
		where = fmt.Sprintf("%s/%d", opt.Addr, opt.DB)
	}
	return redis.NewClient(opt), where, nil
}

// parse parses a URL. The library's errors may have a part of the password in them, so they are not passed on.
func parse(text string) (*redis.Options, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be parsed; it is like redis://user:password@host:6379/0, and signs in a password are "+
			"written as %%xx", ErrConfig)
	}
	switch u.Scheme {
	case "redis", "rediss", "unix":
	default:
		return nil, fmt.Errorf("%w: the URL begins with neither redis://, rediss:// nor unix://", ErrConfig)
	}
	if u.Fragment != "" || strings.ContainsAny(u.Path+u.RawQuery, "@#") { // of a password: a host may have been taken for the user
		return nil, fmt.Errorf("%w: in the URL, write characters such as / ? # of the password as %%xx", ErrConfig)
	}
	opt, err := redis.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the path or a parameter of the URL is wrong", ErrConfig)
	}
	return opt, nil
}

// secret returns the password of a file if there is one, or of the URL, or of the environment.
func secret(file, url, env string) (string, error) {
	if file == "" {
		return cmp.Or(url, env), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: the password: %w", ErrConfig, err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// secure adds what the flags say of TLS.
func (c Config) secure(opt *redis.Options) error {
	if c.TLS && opt.TLSConfig == nil {
		opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if opt.TLSConfig == nil {
		if c.CAFile+c.CertFile+c.KeyFile+c.ServerName != "" {
			return fmt.Errorf("%w: certificates are for TLS, by --tls or rediss://", ErrConfig)
		}
		return nil
	}
	if c.ServerName != "" {
		opt.TLSConfig.ServerName = c.ServerName
	} else if len(c.Addrs) > 0 {
		opt.TLSConfig.ServerName = "" // each server's own, instead of the URL's host
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return fmt.Errorf("%w: the certificate authority: %w", ErrConfig, err)
		}
		opt.TLSConfig.RootCAs = x509.NewCertPool()
		if !opt.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%w: %s has no certificate", ErrConfig, c.CAFile)
		}
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return fmt.Errorf("%w: the certificate of the client: %w", ErrConfig, err)
	}
	opt.TLSConfig.Certificates = []tls.Certificate{cert}
	return nil
}
