package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// Every alert says how bad it is, what happens and where its way out is described, and can fire: its metrics are exported.
func TestAlerts(t *testing.T) {
	t.Parallel()
	groups, errs := rulefmt.Parse(read(t, "prometheus/alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	for _, err := range errs {
		t.Error(err)
	}
	exported := exportedMetrics(t)
	runbook := string(read(t, "runbook.md"))
	described := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllStringSubmatch(runbook, -1) {
		described[m[1]] = true
	}
	alerts := 0
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			alerts++
			if s := rule.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s: severity %q", rule.Alert, s)
			}
			if rule.Annotations["summary"] == "" {
				t.Errorf("%s: no summary", rule.Alert)
			}
			_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "deploy/runbook.md#")
			if anchor != strings.ToLower(rule.Alert) || !described[rule.Alert] {
				t.Errorf("%s: the runbook does not describe it at %q", rule.Alert, rule.Annotations["runbook_url"])
			}
			delete(described, rule.Alert)
			checkExpression(t, rule.Alert, rule.Expr, exported)
		}
	}
	if alerts == 0 {
		t.Error("there are no alerts")
	}
	for name := range described {
		t.Errorf("the runbook describes %s, which is no alert", name)
	}
}

// dashboard is what is checked of Grafana's model.
type dashboard struct {
	UID, Title string
	Panels     []panel
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr string }
}

// loadDashboards reads all dashboards, by their files.
func loadDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	paths, err := filepath.Glob("../grafana/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	out := map[string]dashboard{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[path] = d
	}
	return out
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	exported := exportedMetrics(t)
	for path, dashboard := range loadDashboards(t) {
		if dashboard.UID == "" || dashboard.Title == "" {
			t.Errorf("%s: no uid or title", path)
		}
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		for _, p := range dashboard.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have id %d", path, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %q lies on %q or outside", path, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: %q shows nothing", path, p.Title)
			}
			for _, target := range p.Targets {
				checkExpression(t, p.Title, target.Expr, exported)
			}
		}
	}
}

// checkExpression fails the test unless PromQL has the expression and the store exports what it selects.
func checkExpression(t *testing.T, where, expression string, exported map[string]bool) {
	t.Helper()
	expression = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h").Replace(expression)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		name := selector.Name
		for _, m := range selector.LabelMatchers {
			if m.Name == labels.MetricName {
				name = m.Value
			}
		}
		if name != "up" && !exported[name] {
			t.Errorf("%s: the store does not export %s", where, name)
		}
		return nil
	})
}

// metricList is the list of what the store exports, which a test of the command proves.
const metricList = "../metrics.md"

// exportedMetrics reads the list; of a histogram, the series count, too. What the runtime and the process export is well known.
func exportedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	list, err := os.ReadFile(metricList)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{
		"go_goroutines": true, "go_memstats_heap_inuse_bytes": true, "go_gc_duration_seconds_count": true,
		"process_cpu_seconds_total": true, "process_resident_memory_bytes": true, "process_open_fds": true, "process_max_fds": true,
	}
	for _, m := range regexp.MustCompile("`((?:a2a|grpc)_[a-z0-9_]+)").FindAllStringSubmatch(string(list), -1) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			out[m[1]+suffix] = true
		}
	}
	return out
}
