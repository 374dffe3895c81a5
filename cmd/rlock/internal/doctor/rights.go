package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock"
)

// rights compares what the user may do with the table in SECURITY.md, on every node, because each has its own users. ACL DRYRUN judges
// commands without executing them. Where it is denied, commands that only read are tried, on names that do not exist.
func rights(ctx context.Context, d *deployment) (all []Finding) {
	for _, n := range d.nodes {
		all = append(all, d.rightsAt(ctx, n)...)
	}
	return all
}

func (d *deployment) rightsAt(ctx context.Context, n *node) (all []Finding) {
	t, reason := d.begin(ctx, n)
	switch {
	case t == nil && strings.Contains(reason, "not found"): // as Redis says it
		return []Finding{found(n, Problem, "There is no user %.40q, so services with this name cannot log in. Create the user on every node.", d.opts.User)}
	case t == nil:
		return []Finding{found(n, Unknown, "The rights of the user %q: %s.", d.opts.User, reason)}
	}
	lacking, unknown, err := t.lacking(ctx, every())
	if err != nil {
		return []Finding{found(n, Unknown, "The rights of the user: %s.", why(err))}
	}
	again := "Grant it on every node"
	if t.dry && len(d.judge(unknown)) > 0 {
		again += ", and check again, because only then does Redis say which keys and channels are open"
	}
	if hard := d.judge(lacking); len(hard) > 0 {
		all = append(all, found(n, Problem, "%s lacks %s, without which these fail: %s. %s: %s", t.name(), d.list(hard),
			strings.Join(d.opts.Kinds, ", "), again, d.grants(t.user, d.opts.Kinds...)))
	}
	if kinds := strings.Join(d.opts.Kinds, ", "); d.chosen && len(d.judge(lacking)) == 0 {
		text := t.name() + " has all rights that %s needs"
		if !t.dry {
			text = "The rights that %s needs"
		}
		all = append(all, found(n, OK, text+": %s", kinds, d.grants(t.user, d.opts.Kinds...)))
	}
	if others := d.others(lacking); len(others) > 0 {
		all = append(all, found(n, Note, "%s cannot use %s. If the services do, say so to this check, and grant what it then names.",
			t.name(), strings.Join(others, ", ")))
	}
	if len(unknown) > 0 && !t.dry {
		all = append(all, found(n, Unknown,
			"The rights to write: %s. Ask as a user who may use ACL DRYRUN (Redis 7 or newer), and name the user of the services.", reason))
	}
	return all
}

// begin returns how to ask a node, and why it cannot be asked by ACL DRYRUN. Nil means that there is no other way.
func (d *deployment) begin(ctx context.Context, n *node) (t *trial, reason string) {
	t = &trial{node: n, prefix: d.opts.Prefix, user: d.opts.User}
	if t.user == "" {
		name, err := n.rdb.Do(ctx, "acl", "whoami").Text()
		if err != nil {
			return t, why(err)
		}
		t.user = name
	}
	err := n.rdb.Do(ctx, "acl", "dryrun", t.user, "ping").Err()
	if t.dry = err == nil; t.dry {
		return t, ""
	}
	if d.opts.User != "" {
		return nil, why(err)
	}
	return t, why(err)
}

func (t *trial) name() string {
	if t.user == "" {
		return "The user"
	}
	return fmt.Sprintf("The user %.40q", t.user)
}

// every returns all rules that some row has, each once.
func every() (rules []string) {
	for _, r := range rows {
		for rule := range strings.FieldsSeq(r.rules) {
			if rule[0] != '-' && !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// needed returns the rows that must hold for some kinds.
func (d *deployment) needed(kinds []string) (names []string) {
	for _, kind := range kinds {
		of, _ := rowsOf(kind)
		names = append(names, of...)
	}
	switch {
	case d.opts.Acks > 0:
		names = append(names, "WithReplicaAcks")
	case d.opts.Acks == rlock.AllReplicas:
		names = append(names, "AllReplicas")
	}
	if d.cluster {
		names = append(names, "a Cluster")
		if d.hasSharded() {
			names = append(names, "sharded pub/sub")
		}
	}
	return names
}

// hasSharded reports whether all servers are new enough for sharded pub/sub.
func (d *deployment) hasSharded() bool {
	return !slices.ContainsFunc(d.nodes, func(n *node) bool {
		major, _, ok := release(n.info["redis_version"])
		return ok && major < 7
	})
}

// needs returns the rules of a row that matter here. A row may take back rules of others, which begin with a minus.
func (d *deployment) needs(r row) []string {
	back := ""
	if d.cluster && d.hasSharded() {
		back = rowNamed("sharded pub/sub").rules
	}
	return slices.DeleteFunc(strings.Fields(r.rules), func(rule string) bool {
		return rule[0] == '-' || slices.Contains(strings.Fields(back), "-"+rule[1:])
	})
}

// judge returns the lacking rules that the services need.
func (d *deployment) judge(lacking []string) (rules []string) {
	return slices.DeleteFunc(unique(d.allNeeded(d.opts.Kinds)), func(rule string) bool { return !slices.Contains(lacking, rule) })
}

// allNeeded returns the rules that some kinds need, in the order of the rows.
func (d *deployment) allNeeded(kinds []string) (rules []string) {
	for _, name := range d.needed(kinds) {
		for _, rule := range d.needs(rowNamed(name)) {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// grants returns the command that grants a user all that some kinds need, with the prefix of the services.
func (d *deployment) grants(user string, kinds ...string) string {
	rules := strings.Join(d.allNeeded(kinds), " ")
	return "ACL SETUSER " + cmp.Or(user, "NAME") + " " + strings.ReplaceAll(rules, "app:*", d.opts.Prefix+"*")
}

// others returns the kinds that the services need not, and that the user could not use, as far as is known.
func (d *deployment) others(lacking []string) (names []string) {
	for _, k := range kinds {
		lacks := slices.ContainsFunc(k.rows, func(name string) bool {
			return slices.ContainsFunc(d.needs(rowNamed(name)), func(rule string) bool { return slices.Contains(lacking, rule) })
		})
		if lacks && !slices.Contains(d.opts.Kinds, k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

func unique(rules []string) []string {
	slices.Sort(rules)
	return slices.Compact(rules)
}

// list returns rules as they are granted, with the prefix of the services, and no more than fit on a line.
func (d *deployment) list(rules []string) string {
	const most = 12
	var text strings.Builder
	for i, rule := range rules {
		if i == most {
			fmt.Fprintf(&text, " and %d more", len(rules)-most)
			break
		}
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(strings.Replace(rule, "app:*", d.opts.Prefix+"*", 1))
	}
	return text.String()
}
