//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock"
	"github.com/go-rlock/rlock/internal/redistest"
)

// statements are those of the guide, in its order. Each has the token as $1, and then the row's key.
type statements struct{ documents, update, upsert, raise, fences, fence string }

// guide reads the statements from the guide, so that what it says is what the tests run.
func guide(t *testing.T) statements {
	t.Helper()
	text, err := os.ReadFile("../../docs/guide/fencing.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 6)
	return statements{found[0][1], found[1][1], found[2][1], found[3][1], found[4][1], found[5][1]}
}

// executor is a database, a connection or a transaction.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// changed executes a statement, and returns how many rows it has changed.
func changed(t *testing.T, db executor, statement string, args ...any) int {
	t.Helper()
	result, err := db.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return int(n)
}

// tables creates the tables of the guide, with a document and a fence that have the token 40.
func tables(t *testing.T, db *sql.DB) statements {
	t.Helper()
	s := guide(t)
	changed(t, db, s.documents)
	changed(t, db, s.fences)
	require.Equal(t, 1, changed(t, db, s.upsert, rlock.Token(40), "a", "by 40"))
	require.Equal(t, 1, changed(t, db, s.fence, rlock.Token(40), "lock"))
	return s
}

func body(t *testing.T, db *sql.DB) (text string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT body FROM documents WHERE id = 'a'").Scan(&text))
	return text
}

// fenced tries the statements of the guide.
func fenced(p *place) {
	s := tables(p.T, p.queue.db)
	for _, write := range []string{s.update, s.upsert} {
		require.Equal(p, 1, changed(p.T, p.queue.db, write, rlock.Token(42), "a", "by 42"))
		require.Equal(p, 1, changed(p.T, p.queue.db, write, rlock.Token(42), "a", "by 42 again"), "a holder writes twice")
		require.Equal(p, 0, changed(p.T, p.queue.db, write, rlock.Token(41), "a", "by 41"))
		require.Equal(p, "by 42 again", body(p.T, p.queue.db))
		_, err := p.queue.db.ExecContext(p.Context(), write, rlock.Token(0), "a", "without a token")
		require.ErrorContains(p, err, "fencing token is 0")
	}
	var read string
	require.NoError(p, p.queue.db.QueryRowContext(p.Context(), s.raise, rlock.Token(43), "a").Scan(&read))
	require.Equal(p, "by 42 again", read)
	require.ErrorIs(p, p.queue.db.QueryRowContext(p.Context(), s.raise, rlock.Token(42), "a").Scan(&read), sql.ErrNoRows)
	require.Equal(p, 0, changed(p.T, p.queue.db, s.update, rlock.Token(42), "a", "after it was read"))
	require.Equal(p, 0, changed(p.T, p.queue.db, s.update, rlock.Token(43), "b", "no such row"))

	require.Equal(p, 0, changed(p.T, p.queue.db, s.fence, rlock.Token(39), "lock"))
	require.Equal(p, 1, changed(p.T, p.queue.db, s.fence, rlock.Token(41), "lock"))
	require.Equal(p, 1, changed(p.T, p.queue.db, s.fence, rlock.Token(1), "another lock"))
	require.Equal(p, 1, changed(p.T, p.queue.db, s.update, rlock.Token(1795621035043017), "a", "64 bits"))
}

// TestConcurrentWrites shows what PostgreSQL does with the write of an earlier holder that waits for that of a later one.
func TestConcurrentWrites(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	for name, c := range map[string]struct {
		isolation sql.IsolationLevel
		late      func(statements) (string, []any)
		changes   int
		code      string
	}{
		"an update compares again": {late: func(s statements) (string, []any) {
			return s.update, []any{rlock.Token(41), "a", "late"}
		}},
		"an upsert compares again": {late: func(s statements) (string, []any) {
			return s.upsert, []any{rlock.Token(41), "a", "late"}
		}},
		"a fence compares again": {late: func(s statements) (string, []any) {
			return s.fence, []any{rlock.Token(41), "lock"}
		}},
		"a subquery does not": {changes: 1, late: func(statements) (string, []any) {
			return "UPDATE documents SET body = 'late' WHERE id = 'a' AND (SELECT token FROM fences WHERE name = 'lock') <= $1", []any{rlock.Token(41)}
		}},
		"repeatable reads fail": {isolation: sql.LevelRepeatableRead, code: "40001", late: func(s statements) (string, []any) {
			return s.update, []any{rlock.Token(41), "a", "late"}
		}},
		"serializable upserts fail": {isolation: sql.LevelSerializable, code: "40001", late: func(s statements) (string, []any) {
			return s.upsert, []any{rlock.Token(41), "a", "late"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.open(t, server.create(t)).db
			s := tables(t, db)
			later, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: c.isolation})
			require.NoError(t, err)
			defer func() { _ = later.Rollback() }()
			require.Equal(t, 1, changed(t, later, s.fence, rlock.Token(42), "lock"))
			require.Equal(t, 1, changed(t, later, s.update, rlock.Token(42), "a", "by 42"))

			type outcome struct {
				result sql.Result
				err    error
			}
			outcomes := make(chan outcome, 1)
			go func() {
				earlier, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: c.isolation})
				if err != nil {
					outcomes <- outcome{nil, err}
					return
				}
				statement, args := c.late(s)
				result, err := earlier.ExecContext(t.Context(), statement, args...)
				_ = earlier.Commit()
				outcomes <- outcome{result, err}
			}()
			redistest.Eventually(t, "the late write waits", func() bool {
				var waiting int
				require.NoError(t, db.QueryRowContext(t.Context(),
					"SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting))
				return waiting == 1
			})
			require.NoError(t, later.Commit())
			o := <-outcomes
			if c.code != "" {
				var failure *pgconn.PgError
				require.ErrorAs(t, o.err, &failure)
				require.Equal(t, c.code, failure.Code)
				return
			}
			require.NoError(t, o.err)
			n, err := o.result.RowsAffected()
			require.NoError(t, err)
			require.EqualValues(t, c.changes, n)
			require.Equal(t, c.changes == 1, body(t, db) == "late")
		})
	}
}

// TestSQLiteTransactions shows that a transaction that has read before it writes fails if another one has written meanwhile, and that others
// wait for one that begins immediately.
func TestSQLiteTransactions(t *testing.T) {
	t.Parallel()
	q, err := open("", filepath.Join(t.TempDir(), "jobs.db"))
	require.NoError(t, err)
	defer func() { _ = q.db.Close() }()
	s := tables(t, q.db)
	conn, err := q.db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	read := func() {
		var token rlock.Token
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT token FROM documents").Scan(&token))
	}

	changed(t, conn, "BEGIN")
	read()
	require.Equal(t, 1, changed(t, q.db, s.update, rlock.Token(41), "a", "meanwhile"))
	_, err = conn.ExecContext(t.Context(), s.update, rlock.Token(43), "a", "by 43")
	require.ErrorContains(t, err, "database is locked")
	changed(t, conn, "ROLLBACK")

	changed(t, conn, "BEGIN IMMEDIATE")
	read()
	late := make(chan error, 1)
	go func() {
		written, err := q.updated(q.db.ExecContext(t.Context(), s.update, rlock.Token(42), "a", "late"))
		if written {
			err = errors.New("the late write was accepted")
		}
		late <- err
	}()
	require.Equal(t, 1, changed(t, conn, s.update, rlock.Token(43), "a", "by 43"))
	changed(t, conn, "COMMIT")
	require.NoError(t, <-late)
	require.Equal(t, "by 43", body(t, q.db))
}
