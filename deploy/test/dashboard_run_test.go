package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// What panels show of one backend only.
var (
	onlyPostgres = []string{"Connections to PostgreSQL", "Waiting for a connection", "Schema version"}
	onlyEmbedded = []string{"Syncs of the disk", "Data on disk", "Compaction"}
)

// Every panel of the dashboard has something to show, and no alert has anything to say, of two stores on PostgreSQL with the
// commands and the scrape configuration of the compose file, and of an embedded one, each with an agent at work. Prometheus is
// the real one, of the PATH, and scrapes every second.
func TestDashboardAndAlertsOnARunningSystem(t *testing.T) {
	t.Parallel()
	const shared, embedded = "a2a-taskstore", "embedded"
	project := loadCompose(t)
	secrets := makeSecrets(t)
	database := startPostgres(t)
	if out, err := exec.CommandContext(t.Context(), store, "migrate", "--backend=postgres", "--postgres-dsn="+database).CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}

	var scraped []string
	for i := range 2 {
		address, admin, agent := freeAddress(t), freeAddress(t), freeAddress(t)
		local := strings.Replace(address, "127.0.0.1", "localhost", 1)
		replace := strings.NewReplacer("/run/secrets/", secrets+"/", "--listen=:7420", "--listen="+address,
			"--admin-listen=:7421", "--admin-listen="+admin, "--listen=:8080", "--listen="+agent, "dns:///store:7420", "dns:///"+local)
		command := func(service string) (args []string) {
			for _, arg := range project.Services[fmt.Sprint(service, "-", i+1)].Command {
				args = append(args, replace.Replace(arg))
			}
			return args
		}
		start(t, store, append(command("store"), "--postgres-dsn="+database)...)
		start(t, demo, append([]string{"agent"}, command("agent")...)...)
		work(t, agent, local, "--owner=demo-user", "--tls-ca="+filepath.Join(secrets, "ca.pem"), "--token-file="+filepath.Join(secrets, "agent.token"))
		scraped = append(scraped, admin)
	}
	address, admin, agent := freeAddress(t), freeAddress(t), freeAddress(t)
	start(t, store, "serve", "--listen="+address, "--admin-listen="+admin, "--data-dir="+filepath.Join(t.TempDir(), "data"))
	start(t, demo, "agent", "--listen="+agent, "--store="+address)
	work(t, agent, address)

	p := startPrometheus(t, scraped, map[string]string{embedded: admin})
	for job, others := range map[string][]string{shared: onlyEmbedded, embedded: append(onlyPostgres, "First certificate ends in")} {
		variables := strings.NewReplacer("$__rate_interval", "4s", "$job", job, "$instance", ".*")
		for _, dashboard := range loadDashboards(t) {
			for _, panel := range dashboard.Panels {
				for _, target := range panel.Targets {
					p.checkPanel(job, panel.Title, variables.Replace(target.Expr), !slices.Contains(others, panel.Title))
				}
			}
		}
	}
	p.checkAlerts()
}

// work has an agent write, and others read what it writes as it comes, and ask without the last of what gives access, which is
// the token, until the test ends.
func work(t *testing.T, agent, address string, access ...string) {
	ask := func(name string, args ...string) {
		_ = exec.CommandContext(t.Context(), store, append([]string{name, "--address=" + address}, args...)...).Run()
	}
	go func() {
		for n := 0; t.Context().Err() == nil; n++ {
			reply, err := http.Post("http://"+agent+"/", "application/json", strings.NewReader(fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1,
				"method": "SendMessage", "params": {"configuration": {"returnImmediately": true},
				"message": {"messageId": "m%d", "role": "ROLE_USER", "parts": [{"text": "write"}]}}}`, n)))
			if err == nil {
				var got struct {
					Result struct{ Task struct{ ID string } }
				}
				_ = json.NewDecoder(reply.Body).Decode(&got)
				reply.Body.Close()
				ask("events", append(access, got.Result.Task.ID, "--follow")...)
				ask("list", access...)
				ask("delete", append(access, got.Result.Task.ID)...)
				ask("get", append(access[:max(len(access)-1, 0):max(len(access)-1, 0)], "absent")...)
			}
			select {
			case <-t.Context().Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

type prometheus struct {
	t       *testing.T
	address string
}

// startPrometheus starts Prometheus with the configuration and the rules that the compose file mounts, but these targets, and
// others for more jobs.
func startPrometheus(t *testing.T, targets []string, more map[string]string) *prometheus {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal(read(t, "compose/prometheus.yaml"), &config); err != nil {
		t.Fatal(err)
	}
	rules, err := filepath.Abs("../prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]string{"scrape_interval": "1s", "evaluation_interval": "1s"}
	config["rule_files"] = []string{rules}
	jobs := config["scrape_configs"].([]any)
	static := func(targets ...string) any { return []any{map[string]any{"targets": targets}} }
	jobs[0].(map[string]any)["static_configs"] = static(targets...)
	for name, target := range more {
		jobs = append(jobs, map[string]any{"job_name": name, "static_configs": static(target)})
	}
	config["scrape_configs"] = jobs
	content, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), freeAddress(t)
	write(t, filepath.Join(dir, "prometheus.yaml"), content, 0o600)
	start(t, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	return &prometheus{t, address}
}

// get asks Prometheus' API and decodes its data.
func (p *prometheus) get(path string, query url.Values, data any) error {
	reply, err := http.Get("http://" + p.address + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	var envelope struct{ Data json.RawMessage }
	if err := json.Unmarshal(body, &envelope); err != nil || reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", reply.Status, bytes.TrimSpace(body))
	}
	return json.Unmarshal(envelope.Data, data)
}

// shows reports whether an expression has a number for a result now.
func (p *prometheus) shows(expr string) bool {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := p.get("/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return false
	}
	for _, series := range data.Result {
		text, _ := series.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// checkPanel fails the test unless an expression comes to show something, or, where nothing is to be shown, shows nothing.
func (p *prometheus) checkPanel(job, title, expr string, something bool) {
	p.t.Helper()
	if !something {
		if p.shows(expr) {
			p.t.Errorf("%s: the panel %q is not of another backend alone", job, title)
		}
		return
	}
	if !within(p.t, 30*time.Second, func() bool { return p.shows(expr) }) {
		p.t.Errorf("%s: the panel %q shows nothing: %s", job, title, expr)
	}
}

// checkAlerts fails the test if an alert cannot be evaluated, is about to fire, or asks for what nobody exports.
func (p *prometheus) checkAlerts() {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, State, LastError string }
		}
	}
	if err := p.get("/api/v1/rules", nil, &data); err != nil {
		p.t.Fatal(err)
	}
	rules := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			rules++
			if rule.Health != "ok" || rule.State != "inactive" {
				p.t.Errorf("%s is %s and %s: %s", rule.Name, rule.Health, rule.State, rule.LastError)
			}
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Query)
			if err != nil {
				p.t.Fatal(err)
			}
			for _, selectors := range parser.ExtractSelectors(expr) {
				for _, m := range selectors {
					if m.Name == "__name__" && !strings.Contains(m.Value, "audit_log") && !p.shows("count("+m.Value+")") {
						p.t.Errorf("%s: nobody exports %s", rule.Name, m.Value)
					}
				}
			}
		}
	}
	if rules == 0 {
		p.t.Error("no alert was evaluated")
	}
}
