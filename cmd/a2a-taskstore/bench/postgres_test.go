//go:build unix

package bench

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend/postgres/pgtest"
)

func TestQuickRunOnPostgres(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t, nil)
	r := quick(t, Command{Workload: []string{"save", "w1", "w7", "w9"}, Backend: []string{"postgres"}, Postgres: dsn})
	checkSane(t, r)
	for workload, want := range map[string][]string{
		"save": {Service, Echo, Direct, Bare, BarePerCaller},
		"w1":   {Service, Echo, Direct, Bare, BarePerCaller, DropIn, SDK},
		"w7":   {Service, Quiet},
		"w9":   {Service},
	} {
		if got := systemsOf(r, workload); !slices.Equal(got, want) {
			t.Errorf("%s: systems %v, want %v", workload, got, want)
		}
	}
	for _, res := range r.Results {
		if res.Workload == "w1" && res.System != Echo && res.System != SDK && res.figure(Written) < 100 {
			t.Errorf("%s, %s: %v bytes of WAL for an event of 100 B", res.text(), res.System, res.figure(Written))
		}
	}
	if !slices.ContainsFunc(r.Results, func(res Result) bool { return res.Variant == twoReplicas }) {
		t.Error("nothing was read through a second replica")
	}

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'bench-%'").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("%d schemas left behind", left)
	}
}
