package deploy

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Mode is what a server says it is: HELLO as mode, and INFO as redis_mode.
type Mode string

// The modes. Any other is a server by itself.
const (
	ClusterMode  Mode = "cluster"
	SentinelMode Mode = "sentinel"
)

// Check asks whether the deployment is of the sort that the Config takes it for. It returns ErrConfig if it is not: for example, a client of
// a single server sees only a part of the locks of a cluster, and what a replica has that has lost its master may be of any time before. The
// note is a warning, or empty. Another error means that no server answered, or that none lets the user in.
//
// It takes no right, because HELLO takes none, but to say of a replica whether it has its master. What knows no HELLO, such as a proxy, passes.
func (c Config) Check(ctx context.Context, rdb redis.UniversalClient, where string) (note string, err error) {
	limit := 2 * c.Timeout // for a connection, which has a limit and an error of its own, and for a reply
	if c.Cluster {
		limit = c.Timeout // or it would ask one node after another
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reply, err := rdb.Do(ctx, "hello").Result()
	switch mode := Mode(field(reply, "mode")); {
	case c.Cluster && err != nil && strings.Contains(err.Error(), "cluster support disabled"):
		return "", sortError(where + " is no cluster: leave --cluster out")
	case c.SentinelMaster != "" && err != nil && strings.Contains(err.Error(), "unknown command 'sentinel'"):
		return "", sortError("no server at " + where + " is a Sentinel: leave --sentinel-master out")
	case err != nil && !refused(err):
		return "", err
	case c.Cluster || c.SentinelMaster != "":
		return "", nil
	case mode == ClusterMode:
		return "", sortError(where + " is a node of a cluster, so it has a part of the locks only: use --cluster")
	case mode == SentinelMode:
		return "", sortError(where + " is a Sentinel, which has no locks: use --sentinel-master")
	case field(reply, "role") == "replica":
		return replica(ctx, rdb, where)
	}
	return "", nil
}

// replica returns what to say of a replica.
func replica(ctx context.Context, rdb redis.UniversalClient, where string) (note string, err error) {
	note = where + " is a replica: what is shown may be behind its master"
	role, err := rdb.Do(ctx, "role").Slice()
	switch {
	case err != nil && refused(err):
		return note + ", and whether it has lost it this user may not ask (+role)", nil
	case err != nil:
		return "", err
	case len(role) > 3 && role[0] == "slave" && role[3] != "connected":
		return "", sortError(where + " is a replica that has lost its master, so it does not know who holds what: ask the master")
	}
	return note, nil
}

// sortError is an ErrConfig that says which deployment it is, and what to do.
type sortError string

// Error implements error.
func (e sortError) Error() string { return string(e) }

// Is makes it an ErrConfig.
func (sortError) Is(target error) bool { return target == ErrConfig }

// field returns a field of a reply to HELLO, which is a map, or a list in the older protocol.
func field(reply any, name string) string {
	var value any
	switch reply := reply.(type) {
	case map[any]any:
		value = reply[name]
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			if reply[i] == name {
				value = reply[i+1]
			}
		}
	}
	text, _ := value.(string)
	return text
}

// refused reports whether a server has answered, and let the user in, but did not like the command.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !redis.HasErrorPrefix(err, "NOAUTH") && !redis.HasErrorPrefix(err, "WRONGPASS") &&
		!redis.HasErrorPrefix(err, "LOADING") && !redis.HasErrorPrefix(err, "CLUSTERDOWN")
}
