package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// The name of the schema is part of every statement, so that no search_path, which is session state, matters.
const (
	schemaName   = "a2a_taskstore"
	versionTable = schemaName + ".goose_db_version"
	// migrationLock is the advisory lock that one migrator holds: an arbitrary number, the same in all versions.
	migrationLock = 0x61326174736b
)

// SchemaError says that the database's schema is not the one that this program works with.
type SchemaError struct {
	// Found and Want are schema versions; Found is 0 for an empty database.
	Found, Want int64
}

// Error returns the text.
func (e *SchemaError) Error() string {
	if e.Found > e.Want {
		return fmt.Sprintf("the database has schema version %d, written by a newer server; this one knows version %d: use a newer server", e.Found, e.Want)
	}
	return fmt.Sprintf("the database has schema version %d, this server needs version %d: migrate it first", e.Found, e.Want)
}

// Migrate brings the schema up to the version that this program works with, and creates it in an empty database. It returns
// the version. Any number of programs may call it at once: one works, under an advisory lock, and the others wait, so it
// needs a direct connection, not a pooler that shares sessions. A *SchemaError refuses a schema from a newer program.
func Migrate(ctx context.Context, dsn string, logger *slog.Logger) (int64, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return 0, err
	}
	db := stdlib.OpenDB(*cfg.ConnConfig)
	defer db.Close()
	return migrate(ctx, db, logger)
}

func migrate(ctx context.Context, db *sql.DB, logger *slog.Logger) (int64, error) {
	want, err := latestMigration()
	if err != nil {
		return 0, err
	}
	found, err := schemaVersion(ctx, db)
	if err != nil {
		return 0, err
	}
	if found == want {
		return found, nil // without asking for the lock, which 47 others may be waiting for
	}
	if found > want {
		return found, &SchemaError{Found: found, Want: want}
	}
	if err := createSchema(ctx, db); err != nil {
		return 0, err
	}
	const seconds, tries = 1, 3600 // a migration may copy all
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(seconds, tries))
	if err != nil {
		return 0, fmt.Errorf("migration lock: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, fmt.Errorf("embedded migrations: %w", err)
	}
	provider, err := goose.NewProvider(database.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, fmt.Errorf("preparing migrations: %w", err)
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		return 0, fmt.Errorf("migrating: %w", err)
	}
	for _, m := range applied {
		logger.InfoContext(ctx, "schema migrated", "version", m.Source.Version, "took", m.Duration)
	}
	return want, nil
}

// latestMigration is the version of the newest embedded migration.
func latestMigration() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("embedded migrations: %w", errors.Join(err, fs.ErrNotExist))
	}
	return goose.NumericComponent(names[len(names)-1]) // names come in order
}

// schemaVersion is the version that the database has, 0 without one.
func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	var exists bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, versionTable).Scan(&exists); err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	if !exists {
		return 0, nil
	}
	var version int64
	err := db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable+` WHERE is_applied`).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return version, nil
}

func createSchema(ctx context.Context, db *sql.DB) error {
	var exists bool
	if err := db.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, schemaName).Scan(&exists); err != nil {
		return fmt.Errorf("looking for the schema: %w", err)
	}
	if exists {
		return nil // also where only an administrator may create one
	}
	_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+schemaName)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "23505" || e.Code == "42P06") {
		return nil // another one created it at the same moment, which IF NOT EXISTS does not cover
	}
	if err != nil {
		return fmt.Errorf("creating the schema: %w", err)
	}
	return nil
}

// checkSchema refuses a schema that this program does not work with, and returns the version of one that it does.
func checkSchema(ctx context.Context, db *sql.DB) (int64, error) {
	want, err := latestMigration()
	if err != nil {
		return 0, err
	}
	found, err := schemaVersion(ctx, db)
	if err != nil {
		return 0, err
	}
	if found != want {
		return found, &SchemaError{Found: found, Want: want}
	}
	return found, nil
}
