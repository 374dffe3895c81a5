package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/go-rlock/rlock"
)

// errStale means that a later holder of the lock has begun the job.
var errStale = errors.New("refused: a later holder has begun this job")

// queue is the table of jobs. SQLite and PostgreSQL understand the same statements.
type queue struct{ db *sql.DB }

// job is a video to transcode. The lock of the video has the video's name. Whoever has the ticket can have that lock.
type job struct{ id, video, format, ticket string }

// open opens the PostgreSQL database at a URL, or else a file of SQLite.
func open(url, file string) (*queue, error) {
	driver, source := "pgx", url
	if url == "" {
		// Several processes write to the file. One that finds it locked waits, rather than fails.
		driver, source = "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
	}
	db, err := sql.Open(driver, source)
	return &queue{db}, err
}

func (q *queue) create(ctx context.Context) error {
	_, err := q.db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS jobs (
			id     TEXT PRIMARY KEY,
			video  TEXT NOT NULL,
			format TEXT NOT NULL,
			ticket TEXT NOT NULL,             -- by which the first worker gets the lock of the video
			state  TEXT NOT NULL DEFAULT 'queued',
			due    BIGINT NOT NULL DEFAULT 0, -- when to deliver it again, in ms since 1970
			token  BIGINT NOT NULL,           -- of the last one that has begun the job, or enqueued it
			result TEXT NOT NULL DEFAULT ''
		)`)
	return err
}

// add adds a job with its ticket. With two statements, a worker could find the job without one.
func (q *queue) add(ctx context.Context, video, format, ticket string, token rlock.Token) error {
	_, err := q.db.ExecContext(ctx, `INSERT INTO jobs (id, video, format, ticket, token) VALUES ($1, $2, $3, $4, $5)`,
		rand.Text(), video, format, ticket, token)
	return err
}

// next delivers a job, and delivers it again after the given time if it is not done by then. So two workers may have one job. That costs
// a little time and does no harm, because the lock and the fence decide. The error is sql.ErrNoRows if no job is due.
func (q *queue) next(ctx context.Context, again time.Duration) (j job, err error) {
	now := time.Now()
	err = q.db.QueryRowContext(ctx, `
		UPDATE jobs SET due = $2 WHERE state = 'queued' AND due <= $1 AND id = (
			SELECT id FROM jobs WHERE state = 'queued' AND due <= $1 ORDER BY due, id LIMIT 1)
		RETURNING id, video, format, ticket`,
		now.UnixMilli(), now.Add(again).UnixMilli()).Scan(&j.id, &j.video, &j.format, &j.ticket)
	return j, err
}

// begin raises the token of a job. From then on, the database refuses what earlier holders write. It reports false if the job is done.
func (q *queue) begin(ctx context.Context, j job, token rlock.Token) (bool, error) {
	return q.updated(q.db.ExecContext(ctx, `UPDATE jobs SET token = $1 WHERE id = $2 AND token <= $1 AND state = 'queued'`, token, j.id))
}

// finish writes the result of a job, unless a later holder has begun the same job.
func (q *queue) finish(ctx context.Context, j job, token rlock.Token, result string) error {
	written, err := q.updated(q.db.ExecContext(ctx,
		`UPDATE jobs SET result = $3, state = 'done', token = $1 WHERE id = $2 AND token <= $1`, token, j.id, result))
	if err == nil && !written {
		return errStale
	}
	return err
}

// updated reports whether a statement has updated its row.
func (q *queue) updated(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// left returns how many jobs are not done.
func (q *queue) left(ctx context.Context) (n int, err error) {
	err = q.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM jobs WHERE state = 'queued'`).Scan(&n)
	return n, err
}
