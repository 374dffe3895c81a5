package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// rawCommand is a script with its words. oneName stands in them for the name of the lock.
type rawCommand struct {
	source     string // empty if the servers know the script
	digest     string
	keys, args []string
	boxed      []any // the args for go-redis, made once
}

// script returns a command whose only key is the name.
func script(source string, args ...string) rawCommand {
	sum := sha1.Sum([]byte(source))
	return rawCommand{source: source, digest: hex.EncodeToString(sum[:]), keys: []string{oneName}, args: args, boxed: boxed(args)}
}

// of returns the command for a name. Its keys are put into room. It shares the args unless the name is in one.
func (c rawCommand) of(name string, room []string) rawCommand {
	for i, key := range c.keys {
		room[i] = named(key, name)
	}
	c.keys = room[:len(c.keys):len(c.keys)]
	if slices.ContainsFunc(c.args, func(arg string) bool { return strings.Contains(arg, oneName) }) {
		c.args = slices.Clone(c.args)
		for i, arg := range c.args {
			c.args[i] = named(arg, name)
		}
		c.boxed = boxed(c.args)
	}
	return c
}

// named puts a name into a word.
func named(word, name string) string {
	if word == oneName {
		return name
	}
	return strings.ReplaceAll(word, oneName, name)
}

func boxed(words []string) []any {
	all := make([]any, len(words))
	for i, word := range words {
		all[i] = word
	}
	return all
}

// rawPair is an acquire and a release without a library.
type rawPair struct{ take, give rawCommand }

// bare is a Redis client that only sends. The reply of a script is nil or a list if it refuses, otherwise a number or OK.
type bare interface {
	load(ctx context.Context, source string) error // on all masters
	run(ctx context.Context, c *rawCommand) (int64, error)
	pipe(ctx context.Context, cs []*rawCommand) error // in one pipeline; a refusal is an error
}

var (
	errTaken = errors.New("the floor has no waiters, and its lock is taken")
	errFreed = errors.New("the floor has lost its lock")
)

// openRaw returns a function that opens what a bare client sends.
func openRaw(connect func(*Cell) (bare, error), pair func(context.Context, *Cell) (rawPair, error)) func(Cell) (Library, error) {
	return func(c Cell) (Library, error) { return newRaw(context.Background(), &c, connect, pair) }
}

func newRaw(
	ctx context.Context, c *Cell, connect func(*Cell) (bare, error), pair func(context.Context, *Cell) (rawPair, error),
) (*rawLibrary, error) {
	client, err := connect(c)
	if err != nil {
		return nil, err
	}
	p, err := pair(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, command := range []rawCommand{p.take, p.give} {
		if command.source != "" {
			if err := client.load(ctx, command.source); err != nil {
				return nil, err
			}
		}
	}
	return &rawLibrary{client, p}, nil
}

type rawLibrary struct {
	client bare
	pair   rawPair
}

func (l *rawLibrary) Handle(name string) Handle {
	h := &rawHandle{client: l.client}
	h.take, h.give = l.pair.take.of(name, h.room[:4]), l.pair.give.of(name, h.room[4:])
	return h
}

func (*rawLibrary) Key(name string) string { return name }

type rawHandle struct {
	client     bare
	take, give rawCommand
	room       [8]string // so that a handle is one allocation
}

func (h *rawHandle) Lock(ctx context.Context) error {
	left, err := h.client.run(ctx, &h.take)
	if err == nil && left < 0 {
		err = errTaken
	}
	return err
}

func (h *rawHandle) Unlock(ctx context.Context) error {
	was, err := h.client.run(ctx, &h.give)
	if err == nil && was != 1 {
		err = errFreed
	}
	return err
}

// Together returns a handle of several locks, with a pipeline for all.
func (l *rawLibrary) Together(names []string) Handle {
	h := &rawTogether{client: l.client}
	for _, name := range names {
		one := l.Handle(name).(*rawHandle)
		h.take, h.give = append(h.take, &one.take), append(h.give, &one.give)
	}
	return h
}

type rawTogether struct {
	client     bare
	take, give []*rawCommand
}

func (h *rawTogether) Lock(ctx context.Context) error { return h.client.pipe(ctx, h.take) }

func (h *rawTogether) Unlock(ctx context.Context) error { return h.client.pipe(ctx, h.give) }

// bareOnGoRedis returns a bare client of go-redis.
func bareOnGoRedis(c *Cell) (bare, error) {
	rdb, err := c.goRedis()
	return bareGoRedis{rdb}, err
}

type bareGoRedis struct{ rdb redis.UniversalClient }

func (b bareGoRedis) load(ctx context.Context, source string) error {
	if cluster, ok := b.rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return node.ScriptLoad(ctx, source).Err()
		})
	}
	return b.rdb.ScriptLoad(ctx, source).Err()
}

func (b bareGoRedis) run(ctx context.Context, c *rawCommand) (int64, error) {
	return ofGoRedis(b.rdb.EvalSha(ctx, c.digest, c.keys, c.boxed...))
}

func (b bareGoRedis) pipe(ctx context.Context, cs []*rawCommand) error {
	pipeline := b.rdb.Pipeline()
	for _, c := range cs {
		pipeline.EvalSha(ctx, c.digest, c.keys, c.boxed...)
	}
	replies, err := pipeline.Exec(ctx)
	for _, reply := range replies {
		if n, err := ofGoRedis(reply.(*redis.Cmd)); err == nil && n < 0 {
			return errTaken
		}
	}
	return err
}

// ofGoRedis returns the number that a script replied, or -1 if it refused.
func ofGoRedis(cmd *redis.Cmd) (int64, error) {
	reply, err := cmd.Result()
	if errors.Is(err, redis.Nil) {
		return -1, nil
	}
	switch reply := reply.(type) {
	case int64:
		return reply, err
	case []any:
		return -1, err
	}
	return 0, err // OK
}

// bareOnRueidis returns a bare client of rueidis.
func bareOnRueidis(c *Cell) (bare, error) {
	client, err := c.rueidis()
	return bareRueidis{client}, err
}

type bareRueidis struct{ client rueidis.Client }

func (b bareRueidis) load(ctx context.Context, source string) error {
	for _, node := range b.client.Nodes() {
		if err := node.Do(ctx, node.B().ScriptLoad().Script(source).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

func (b bareRueidis) command(c *rawCommand) rueidis.Completed {
	return b.client.B().Evalsha().Sha1(c.digest).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

func (b bareRueidis) run(ctx context.Context, c *rawCommand) (int64, error) {
	return ofRueidis(b.client.Do(ctx, b.command(c)))
}

func (b bareRueidis) pipe(ctx context.Context, cs []*rawCommand) error {
	commands := make([]rueidis.Completed, len(cs))
	for i, c := range cs {
		commands[i] = b.command(c)
	}
	for _, reply := range b.client.DoMulti(ctx, commands...) {
		if n, err := ofRueidis(reply); err != nil {
			return err
		} else if n < 0 {
			return errTaken
		}
	}
	return nil
}

// ofRueidis returns the number that a script replied, or -1 if it refused.
func ofRueidis(result rueidis.RedisResult) (int64, error) {
	reply, err := result.ToMessage()
	switch {
	case rueidis.IsRedisNil(err), err == nil && reply.IsArray():
		return -1, nil
	case err == nil && reply.IsInt64():
		return reply.AsInt64()
	}
	return 0, err // OK
}

// What a raw holder writes into Redis: the same for each, because nobody contends.
const (
	rawHolder = "01234567-89ab-cdef-0123-456789abcdef:1"
	rawPermit = "0123456789abcdef"
)

// floorPair is the minimum for any library. That of a semaphore counts, and nothing else.
func floorPair(_ context.Context, c *Cell) (rawPair, error) {
	if c.Permits > 0 {
		return rawPair{script(floorDraw, strconv.Itoa(c.Permits)), script(floorReturn)}, nil
	}
	return rawPair{script(floorTake, floorToken, c.leaseMs()), script(floorGive, floorToken)}, nil
}

// layoutPair is the minimum for a library with Redisson's layout: a hash with a field and a count, or a count and the leases of
// permits; and a message at the release.
func layoutPair(ctx context.Context, c *Cell) (rawPair, error) {
	p := rawPair{script(layoutTake, rawHolder, c.leaseMs()), script(layoutGive, rawHolder, "redisson_lock__channel:{"+oneName+"}")}
	if c.Permits > 0 {
		ends := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
		p = rawPair{script(layoutDraw, rawPermit, ends), script(layoutReturn, rawPermit, "redisson_sc:{"+oneName+"}")}
		for _, command := range []*rawCommand{&p.take, &p.give} {
			command.keys = append(command.keys, "{"+oneName+"}:timeout")
		}
		rdb, err := c.goRedis()
		if err != nil {
			return p, err
		}
		defer func() { _ = rdb.Close() }()
		return p, rdb.Set(ctx, oneName, c.Permits, 0).Err()
	}
	if c.isCluster() { // as rlock and Redisson do by default
		p.give = script(strings.Replace(layoutGive, "publish", "spublish", 1), p.give.args...)
	}
	return p, nil
}

const (
	layoutTake = `if redis.call('exists', KEYS[1]) == 0 then
	redis.call('hset', KEYS[1], ARGV[1], '1')
	redis.call('pexpire', KEYS[1], ARGV[2])
	return 0
end
return {redis.call('pttl', KEYS[1])}`
	layoutGive = `if redis.call('hdel', KEYS[1], ARGV[1]) == 1 then
	redis.call('publish', ARGV[2], '0')
	return 1
end
return 0`
	layoutDraw = `if tonumber(redis.call('get', KEYS[1])) > 0 then
	redis.call('decr', KEYS[1])
	redis.call('zadd', KEYS[2], ARGV[2], ARGV[1])
	return 0
end
return {}`
	layoutReturn = `if redis.call('zrem', KEYS[2], ARGV[1]) == 1 then
	redis.call('publish', ARGV[2], redis.call('incr', KEYS[1]))
	return 1
end
return 0`
)
