package test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/a2a-taskstore"

func loadChart(t *testing.T, dir string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render does what helm template does, and returns the manifests by kind/name.
func render(t *testing.T, c *chart.Chart, values string) (map[string]string, error) {
	t.Helper()
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	if err := chartutil.ProcessDependencies(c, given); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "r", Namespace: "ns", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for path, text := range files {
		if filepath.Ext(path) != ".yaml" {
			continue
		}
		for _, manifest := range releaseutil.SplitManifests(text) {
			var head releaseutil.SimpleHead
			if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
				t.Fatalf("%s: %v\n%s", path, err, manifest)
			}
			if head.Kind == "" {
				continue
			}
			id := head.Kind + "/" + head.Metadata.Name
			if out[id] != "" {
				t.Errorf("%s occurs twice", id)
			}
			out[id] = manifest
			decode(t, head.Version+" "+head.Kind, manifest)
		}
	}
	return out, nil
}

func mustRender(t *testing.T, c *chart.Chart, values string) map[string]string {
	t.Helper()
	out, err := render(t, c, values)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const network = `
auth: {principals: [{name: agents, tenants: ["*"], access: read-write, tokens: [{hash: "sha256:00"}]}]}
tls: {existingSecret: tls}
`

func TestHelmLint(t *testing.T) {
	t.Parallel()
	values, err := chartutil.ReadValues([]byte("postgres: {existingSecret: pg}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range lint.AllWithKubeVersion(chartDir, values, "ns", nil).Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// All that the values can choose makes manifests that Kubernetes reads, with what belongs to it and nothing else.
func TestHelmModes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values string
		want   string
	}{
		"shared": {"postgres: {existingSecret: pg}" + network,
			"Deployment/r-a2a-taskstore PodDisruptionBudget/r-a2a-taskstore Secret/r-a2a-taskstore-credentials Service/r-a2a-taskstore"},
		"shared, everything given": {`
postgres: {existingSecret: pg, migrate: job, statementMode: describe, notify: false}
auth: {existingSecret: principals}
tls: {existingSecret: tls, clientCA: true}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}}
imagePullSecrets: [{name: pull}]
serviceAccountName: sa
priorityClassName: high
podAnnotations: {a: b}
podLabels: {c: d}
nodeSelector: {disk: ssd}
tolerations: [{key: k, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
service: {annotations: {e: f}}
extraArgs: ["--retain-tombstone=1h"]
extraEnv: [{name: A2A_TASKSTORE_LOG_FORMAT, value: json}]
`, "Deployment/r-a2a-taskstore Job/r-a2a-taskstore-migrate PodDisruptionBudget/r-a2a-taskstore Service/r-a2a-taskstore ServiceMonitor/r-a2a-taskstore"},
		"shared, all inline": {"postgres: {dsn: 'postgres://db/x'}\npodDisruptionBudget: {enabled: false}\ninsecure: true",
			"Deployment/r-a2a-taskstore Secret/r-a2a-taskstore-postgres Service/r-a2a-taskstore"},
		"embedded": {"mode: embedded\npersistence: {size: 1Gi, storageClassName: fast}" + network,
			"Secret/r-a2a-taskstore-credentials Service/r-a2a-taskstore StatefulSet/r-a2a-taskstore"},
		"sidecar": {"mode: sidecar", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests := mustRender(t, loadChart(t, chartDir), test.values)
			if got := strings.Join(slices.Sorted(maps.Keys(manifests)), " "); got != test.want {
				t.Errorf("made %s\nwant %s", got, test.want)
			}
			for id, manifest := range manifests {
				switch kind, _, _ := strings.Cut(id, "/"); kind {
				case "Deployment":
					pod := decodeAs[appsv1.Deployment](t, manifest).Spec.Template.Spec
					checkPod(t, pod, pod.Containers)
				case "StatefulSet":
					set := decodeAs[appsv1.StatefulSet](t, manifest).Spec
					pod := set.Template.Spec
					for _, claim := range set.VolumeClaimTemplates {
						pod.Volumes = append(pod.Volumes, corev1.Volume{Name: claim.Name})
					}
					if set.Replicas == nil || *set.Replicas != 1 {
						t.Error("more than one embedded store")
					}
					checkPod(t, pod, pod.Containers)
				case "Job":
					pod := decodeAs[batchv1.Job](t, manifest).Spec.Template.Spec
					checkContainer(t, pod, pod.Containers[0])
				}
			}
		})
	}
}

// Another chart includes the store as a sidecar that starts before its containers.
func TestHelmSidecar(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"embedded": "",
		"postgres": "a2a-taskstore: {postgres: {existingSecret: pg}}",
		"tls":      "a2a-taskstore: {tls: {existingSecret: tls}, auth: {existingSecret: principals}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := loadChart(t, "testdata/agent")
			agent.AddDependency(loadChart(t, chartDir))
			manifests := mustRender(t, agent, values)
			pod := decodeAs[appsv1.Deployment](t, manifests["Deployment/agent"]).Spec.Template.Spec
			if len(pod.InitContainers) != 1 || pod.InitContainers[0].RestartPolicy == nil || *pod.InitContainers[0].RestartPolicy != corev1.ContainerRestartPolicyAlways {
				t.Fatal("no sidecar")
			}
			checkContainer(t, pod, pod.InitContainers[0])
			if args := pod.InitContainers[0].Args; !slices.Contains(args, "--listen=127.0.0.1:7420") {
				t.Errorf("the sidecar can be reached from other pods: %q", args)
			}
			if len(manifests) != 1 {
				t.Errorf("made %v, too", slices.Sorted(maps.Keys(manifests)))
			}
		})
	}
}

func TestHelmRefusesWrongValues(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		"mode: both",
		"replica: 3",
		"replicas: 0",
		"postgres: {existingSecret: pg, maxConns: 2}",
		"postgres: {dsn: x, migrate: job}",
		"postgres: {existingSecret: pg}\ntls: {clientCA: true}",
		"postgres: {existingSecret: pg}\nextraArgs: [oops]",
		"postgres: {existingSecret: pg}\nretention: {terminal: 30d}",
		"postgres: {existingSecret: pg}\ncacheBytes: 64MB",
		"{}", // no database
	} {
		if _, err := render(t, loadChart(t, chartDir), values); err == nil {
			t.Errorf("accepted: %s", values)
		}
	}
}

// checkPod checks a pod of the store, and that its drain is never cut short.
func checkPod(t *testing.T, pod corev1.PodSpec, containers []corev1.Container) {
	t.Helper()
	if len(containers) != 1 {
		t.Fatalf("%d containers", len(containers))
	}
	c := containers[0]
	checkContainer(t, pod, c)
	drain := flagDuration(t, c.Args, "--drain-delay") + flagDuration(t, c.Args, "--drain-timeout")
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; drain == 0 || grace <= drain {
		t.Errorf("the pod is killed after %s, its drain takes %s", grace, drain)
	}
	if pod.SecurityContext == nil || pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot ||
		pod.SecurityContext.SeccompProfile == nil || pod.SecurityContext.FSGroup == nil {
		t.Errorf("security context of the pod: %v", pod.SecurityContext)
	}
}

// checkContainer checks that the program takes its flags, and that what it mounts and is probed at is there.
func checkContainer(t *testing.T, pod corev1.PodSpec, c corev1.Container) {
	t.Helper()
	var variables []string
	for _, v := range c.Env {
		variables = append(variables, v.Name)
	}
	checkCommand(t, store, c.Args, variables)
	if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil ||
		!slices.Contains(s.Capabilities.Drop, "ALL") || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		t.Errorf("security context: %v", c.SecurityContext)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("resources: %v", c.Resources)
	}
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	for _, arg := range c.Args {
		_, path, _ := strings.Cut(arg, "=/")
		if path != "" && !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix("/"+path, m.MountPath) }) {
			t.Errorf("nothing is mounted for %s", arg)
		}
	}
	if c.Args[0] != "serve" {
		return
	}
	for what, probe := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe, "startup": c.StartupProbe} {
		if probe == nil || probe.HTTPGet == nil || !slices.Contains(c.Args, "--admin-listen=:"+probe.HTTPGet.Port.String()) {
			t.Errorf("no %s probe, or nothing that answers it: %v", what, probe)
		}
	}
}
