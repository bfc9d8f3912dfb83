// Generated; do not edit.
import type { ToolCallResult } from "../../client/mcp_client.js";

/**
 * Cleanup all managed resources
 *
 * Takes no arguments.
 *
 * The server says that this tool may destroy data.
 */
export function cleanup(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface KubectlGetInput {
  /** Type of resource to get (e.g., pods, deployments, services, configmaps, events, etc.) */
  resourceType: string;
  /** Name of the resource (optional - if not provided, lists all resources of the specified type) */
  name?: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /**
   * Output format
   * Default "json".
   */
  output?: "json" | "yaml" | "wide" | "name" | "custom";
  /**
   * If true, list resources across all namespaces
   * Default false.
   */
  allNamespaces?: boolean;
  /** Filter resources by label selector (e.g. 'app=nginx') */
  labelSelector?: string;
  /** Filter resources by field selector (e.g. 'metadata.name=my-pod') */
  fieldSelector?: string;
  /** Sort events by a field (default: lastTimestamp). Only applicable for events. */
  sortBy?: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Get or list Kubernetes resources by resource type, name, and optionally namespace
 *
 * The server says that this tool only reads.
 */
export function kubectlGet(args: KubectlGetInput): Promise<ToolCallResult<unknown>>;

export interface KubectlDescribeInput {
  /** Type of resource to describe (e.g., pods, deployments, services, etc.) */
  resourceType: string;
  /** Name of the resource to describe */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
  /**
   * If true, describe resources across all namespaces
   * Default false.
   */
  allNamespaces?: boolean;
}

/**
 * Describe Kubernetes resources by resource type, name, and optionally namespace
 *
 * The server says that this tool only reads.
 */
export function kubectlDescribe(args: KubectlDescribeInput): Promise<ToolCallResult<unknown>>;

export interface KubectlApplyInput {
  /** YAML manifest to apply */
  manifest?: string;
  /**
   * Path to a YAML file to apply (optional - use either manifest or filename). The path is read on the
   * machine running the MCP server, so it is rejected when the server runs over a remote (SSE/Streamable
   * HTTP) transport; use 'manifest' to pass the file's contents instead.
   */
  filename?: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /**
   * If true, only validate the resource, don't actually execute the operation
   * Default false.
   */
  dryRun?: boolean;
  /**
   * If true, immediately remove resources from API and bypass graceful deletion
   * Default false.
   */
  force?: boolean;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Apply a Kubernetes YAML manifest from a string or file
 *
 * The server says that this tool may destroy data.
 */
export function kubectlApply(args?: KubectlApplyInput): Promise<ToolCallResult<unknown>>;

export interface KubectlDeleteInput {
  /** Type of resource to delete (e.g., pods, deployments, services, etc.) */
  resourceType?: string;
  /** Name of the resource to delete */
  name?: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /** Delete resources matching this label selector (e.g. 'app=nginx') */
  labelSelector?: string;
  /** YAML manifest defining resources to delete (optional) */
  manifest?: string;
  /**
   * Path to a YAML file to delete resources from (optional). The path is read on the machine running the MCP
   * server, so it is rejected when the server runs over a remote (SSE/Streamable HTTP) transport; use
   * 'manifest' to pass the file's contents instead.
   */
  filename?: string;
  /**
   * If true, delete resources across all namespaces
   * Default false.
   */
  allNamespaces?: boolean;
  /**
   * If true, immediately remove resources from API and bypass graceful deletion
   * Default false.
   */
  force?: boolean;
  /** Period of time in seconds given to the resource to terminate gracefully */
  gracePeriodSeconds?: number;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Delete Kubernetes resources by resource type, name, labels, or from a manifest file
 *
 * The server says that this tool may destroy data.
 */
export function kubectlDelete(args?: KubectlDeleteInput): Promise<ToolCallResult<unknown>>;

export interface KubectlCreateFromFileContent {
  /** Key to store the content under in the configmap/secret */
  key: string;
  /** The file content to store */
  content: string;
}

export interface KubectlCreateInput {
  /**
   * If true, only validate the resource, don't actually execute the operation
   * Default false.
   */
  dryRun?: boolean;
  /**
   * Output format. One of:
   * json|yaml|name|go-template|go-template-file|template|templatefile|jsonpath|jsonpath-as-json|jsonpath-file
   * Default "yaml".
   */
  output?: "json" | "yaml" | "name" | "go-template" | "go-template-file" | "template" | "templatefile" | "jsonpath" | "jsonpath-as-json" | "jsonpath-file";
  /**
   * If true, validate resource schema against server schema
   * Default true.
   */
  validate?: boolean;
  /** YAML manifest to create resources from */
  manifest?: string;
  /**
   * Path to a YAML file to create resources from. The path is read on the machine running the MCP server, so
   * it is rejected when the server runs over a remote (SSE/Streamable HTTP) transport; use 'manifest' to pass
   * the file's contents instead.
   */
  filename?: string;
  /** Type of resource to create (namespace, configmap, deployment, service, etc.) */
  resourceType?: string;
  /** Name of the resource to create */
  name?: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /** Key-value pair for creating configmap (e.g. ["key1=value1", "key2=value2"]) */
  fromLiteral?: string[];
  /**
   * Path to file for creating configmap/secret (e.g. ["key1=/path/to/file1", "key2=/path/to/file2"]). The
   * path is read on the machine running the MCP server, so it is rejected when the server runs over a remote
   * (SSE/Streamable HTTP) transport; use "fromFileContent" to pass file contents directly instead.
   */
  fromFile?: string[];
  /**
   * Inline file contents for creating a configmap/secret, provided by the client instead of a server-side
   * path (e.g. [{"key": "app.conf", "content": "..."}]). Safe on all transports; use this instead of
   * "fromFile" on remote (SSE/Streamable HTTP) servers.
   */
  fromFileContent?: KubectlCreateFromFileContent[];
  /** Type of secret to create (generic, docker-registry, tls) */
  secretType?: "generic" | "docker-registry" | "tls";
  /** Type of service to create (clusterip, nodeport, loadbalancer, externalname) */
  serviceType?: "clusterip" | "nodeport" | "loadbalancer" | "externalname";
  /** Port pairs for tcp service (e.g. ["80:8080", "443:8443"]) */
  tcpPort?: string[];
  /** Image to use for the containers in the deployment */
  image?: string;
  /**
   * Number of replicas to create for the deployment
   * Default 1.
   */
  replicas?: number;
  /** Port that the container exposes */
  port?: number;
  /** Cron schedule expression for the CronJob (e.g. "*\/5 * * * *") */
  schedule?: string;
  /**
   * Whether to suspend the CronJob
   * Default false.
   */
  suspend?: boolean;
  /** Command to run in the container */
  command?: string[];
  /** Labels to apply to the resource (e.g. ["key1=value1", "key2=value2"]) */
  labels?: string[];
  /** Annotations to apply to the resource (e.g. ["key1=value1", "key2=value2"]) */
  annotations?: string[];
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/** Create Kubernetes resources using various methods (from file or using subcommands) */
export function kubectlCreate(args?: KubectlCreateInput): Promise<ToolCallResult<unknown>>;

export interface KubectlLogsInput {
  /** Type of resource to get logs from */
  resourceType: "pod" | "deployment" | "job" | "cronjob";
  /** Name of the resource */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace: string;
  /** Container name (required when pod has multiple containers) */
  container?: string;
  /** Number of lines to show from end of logs */
  tail?: number;
  /** Show logs since relative time (e.g. '5s', '2m', '3h') */
  since?: string;
  /** Show logs since absolute time (RFC3339) */
  sinceTime?: string;
  /**
   * Include timestamps in logs
   * Default false.
   */
  timestamps?: boolean;
  /**
   * Include logs from previously terminated containers
   * Default false.
   */
  previous?: boolean;
  /**
   * Follow logs output (not recommended, may cause timeouts)
   * Default false.
   */
  follow?: boolean;
  /** Filter resources by label selector */
  labelSelector?: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Get logs from Kubernetes resources like pods, deployments, or jobs
 *
 * The server says that this tool only reads.
 */
export function kubectlLogs(args: KubectlLogsInput): Promise<ToolCallResult<unknown>>;

export interface KubectlScaleInput {
  /** Name of the deployment to scale */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /** Number of replicas to scale to */
  replicas: number;
  /**
   * Resource type to scale (deployment, replicaset, statefulset)
   * Default "deployment".
   */
  resourceType?: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Scale a Kubernetes deployment
 *
 * The server says that this tool may destroy data.
 */
export function kubectlScale(args: KubectlScaleInput): Promise<ToolCallResult<unknown>>;

export interface KubectlPatchInput {
  /** Type of resource to patch (e.g., pods, deployments, services) */
  resourceType: string;
  /** Name of the resource to patch */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /**
   * Type of patch to apply
   * Default "strategic".
   */
  patchType?: "strategic" | "merge" | "json";
  /** Patch data as a JSON object */
  patchData?: Record<string, unknown>;
  /**
   * Path to a file containing the patch data (alternative to patchData). The path is read on the machine
   * running the MCP server, so it is rejected when the server runs over a remote (SSE/Streamable HTTP)
   * transport; use 'patchData' to pass the patch contents instead.
   */
  patchFile?: string;
  /**
   * If true, only validate the resource, don't actually execute the operation
   * Default false.
   */
  dryRun?: boolean;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Update field(s) of a resource using strategic merge patch, JSON merge patch, or JSON patch
 *
 * The server says that this tool may destroy data.
 */
export function kubectlPatch(args: KubectlPatchInput): Promise<ToolCallResult<unknown>>;

export interface KubectlRolloutInput {
  /**
   * Rollout subcommand to execute
   * Default "status".
   */
  subCommand: "history" | "pause" | "restart" | "resume" | "status" | "undo";
  /**
   * Type of resource to manage rollout for
   * Default "deployment".
   */
  resourceType: "deployment" | "daemonset" | "statefulset";
  /** Name of the resource */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace: string;
  /** Revision to rollback to (for undo subcommand) */
  revision?: number;
  /** Revision to roll back to (for history subcommand) */
  toRevision?: number;
  /** The length of time to wait before giving up (e.g., '30s', '1m', '2m30s') */
  timeout?: string;
  /**
   * Watch the rollout status in real-time until completion
   * Default false.
   */
  watch?: boolean;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Manage the rollout of a resource (e.g., deployment, daemonset, statefulset)
 *
 * The server says that this tool may destroy data.
 */
export function kubectlRollout(args: KubectlRolloutInput): Promise<ToolCallResult<unknown>>;

export interface KubectlContextInput {
  /**
   * Operation to perform: list contexts, get current context, or set current context
   * Default "list".
   */
  operation: "list" | "get" | "set";
  /** Name of the context to set as current (required for set operation) */
  name?: string;
  /**
   * When listing contexts, highlight which one is currently active
   * Default true.
   */
  showCurrent?: boolean;
  /**
   * Include detailed information about the context
   * Default false.
   */
  detailed?: boolean;
  /**
   * Output format
   * Default "json".
   */
  output?: "json" | "yaml" | "name" | "custom";
}

/**
 * Manage Kubernetes contexts - list, get, or set the current context
 *
 * The server says that this tool only reads.
 */
export function kubectlContext(args: KubectlContextInput): Promise<ToolCallResult<unknown>>;

/**
 * Reconnect to the Kubernetes API server by recreating all API clients. Use this after cluster upgrades
 * (e.g., EKS control plane upgrades that rotate ENIs/IPs) to force fresh DNS resolution and new TCP
 * connections.
 *
 * Takes no arguments.
 */
export function kubectlReconnect(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

export interface ExplainResourceInput {
  /** Resource name or field path (e.g. 'pods' or 'pods.spec.containers') */
  resource: string;
  /** API version to use (e.g. 'apps/v1') */
  apiVersion?: string;
  /**
   * Print the fields of fields recursively
   * Default false.
   */
  recursive?: boolean;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
  /**
   * Output format (plaintext or plaintext-openapiv2)
   * Default "plaintext".
   */
  output?: "plaintext" | "plaintext-openapiv2";
}

/**
 * Get documentation for a Kubernetes resource or field
 *
 * The server says that this tool only reads.
 */
export function explainResource(args: ExplainResourceInput): Promise<ToolCallResult<unknown>>;

export interface InstallHelmChartInput {
  /** Name of the Helm release */
  name: string;
  /** Chart name (e.g., 'nginx') or path to chart directory */
  chart: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
  /** Helm repository URL (optional if using local chart path) */
  repo?: string;
  /** Custom values to override chart defaults */
  values?: Record<string, unknown>;
  /**
   * Path to values file (alternative to values object). The path is read on the machine running the MCP
   * server, so it is rejected when the server runs over a remote (SSE/Streamable HTTP) transport; use
   * 'values' to pass the values inline instead.
   */
  valuesFile?: string;
  /**
   * Use helm template + kubectl apply instead of helm install (bypasses auth issues)
   * Default false.
   */
  useTemplate?: boolean;
  /**
   * Create namespace if it doesn't exist
   * Default true.
   */
  createNamespace?: boolean;
}

/**
 * Install a Helm chart with support for both standard and template-based installation
 *
 * The server says that this tool may destroy data.
 */
export function installHelmChart(args: InstallHelmChartInput): Promise<ToolCallResult<unknown>>;

export interface UpgradeHelmChartInput {
  /** Name of the Helm release to upgrade */
  name: string;
  /** Chart name or path to chart directory */
  chart: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
  /** Helm repository URL (optional if using local chart path) */
  repo?: string;
  /** Custom values to override chart defaults */
  values?: Record<string, unknown>;
  /**
   * Path to values file (alternative to values object). The path is read on the machine running the MCP
   * server, so it is rejected when the server runs over a remote (SSE/Streamable HTTP) transport; use
   * 'values' to pass the values inline instead.
   */
  valuesFile?: string;
}

/**
 * Upgrade an existing Helm chart release
 *
 * The server says that this tool may destroy data.
 */
export function upgradeHelmChart(args: UpgradeHelmChartInput): Promise<ToolCallResult<unknown>>;

export interface UninstallHelmChartInput {
  /** Name of the Helm release to uninstall */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace: string;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Uninstall a Helm chart release
 *
 * The server says that this tool may destroy data.
 */
export function uninstallHelmChart(args: UninstallHelmChartInput): Promise<ToolCallResult<unknown>>;

export interface NodeManagementInput {
  /** Node operation to perform */
  operation: "cordon" | "drain" | "uncordon";
  /** Name of the node to operate on (required for cordon, drain, uncordon) */
  nodeName?: string;
  /**
   * Force the operation even if there are pods not managed by a ReplicationController, ReplicaSet, Job,
   * DaemonSet or StatefulSet (for drain operation)
   * Default false.
   */
  force?: boolean;
  /**
   * Period of time in seconds given to each pod to terminate gracefully (for drain operation). If set to -1,
   * uses the kubectl default grace period.
   * Default -1.
   */
  gracePeriod?: number;
  /**
   * Delete local data even if emptyDir volumes are used (for drain operation)
   * Default false.
   */
  deleteLocalData?: boolean;
  /**
   * Ignore DaemonSet-managed pods (for drain operation)
   * Default true.
   */
  ignoreDaemonsets?: boolean;
  /**
   * The length of time to wait before giving up (for drain operation, e.g., '5m', '1h')
   * Default "0".
   */
  timeout?: string;
  /**
   * Show what would be done without actually doing it (for drain operation)
   * Default false.
   */
  dryRun?: boolean;
  /**
   * Explicit confirmation to drain the node (required for drain operation)
   * Default false.
   */
  confirmDrain?: boolean;
}

/**
 * Manage Kubernetes nodes with cordon, drain, and uncordon operations
 *
 * The server says that this tool may destroy data.
 */
export function nodeManagement(args: NodeManagementInput): Promise<ToolCallResult<unknown>>;

export interface PortForwardInput {
  resourceType: string;
  resourceName: string;
  localPort: number;
  targetPort: number;
  namespace?: string;
}

/** Forward a local port to a port on a Kubernetes resource */
export function portForward(args: PortForwardInput): Promise<ToolCallResult<unknown>>;

export interface StopPortForwardInput {
  id: string;
}

/** Stop a port-forward process */
export function stopPortForward(args: StopPortForwardInput): Promise<ToolCallResult<unknown>>;

export interface ExecInPodInput {
  /** Name of the pod to execute the command in */
  name: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /**
   * Command to execute as an array of strings (e.g. ["ls", "-la", "/app"]). First element is the executable,
   * remaining are arguments. Shell operators like pipes, redirects, or command chaining are not supported -
   * use explicit array format for security.
   */
  command: string[];
  /** Container name (required when pod has multiple containers) */
  container?: string;
  /** Timeout for command - 60000 milliseconds if not specified */
  timeout?: number;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Execute a command in a Kubernetes pod or container and return the output. Command must be an array of
 * strings where the first element is the executable and remaining elements are arguments. This executes
 * directly without shell interpretation for security.
 *
 * The server says that this tool may destroy data.
 */
export function execInPod(args: ExecInPodInput): Promise<ToolCallResult<unknown>>;

export interface ListApiResourcesInput {
  /** API group to filter by */
  apiGroup?: string;
  /** If true, only show namespaced resources */
  namespaced?: boolean;
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
  /** List of verbs to filter by */
  verbs?: string[];
  /**
   * Output format (wide, name, or no-headers)
   * Default "wide".
   */
  output?: "wide" | "name" | "no-headers";
}

/**
 * List the API resources available in the cluster
 *
 * The server says that this tool only reads.
 */
export function listApiResources(args?: ListApiResourcesInput): Promise<ToolCallResult<unknown>>;

export interface KubectlGenericInput {
  /** The kubectl command to execute (e.g. patch, rollout, top) */
  command: string;
  /** Subcommand if applicable (e.g. 'history' for rollout) */
  subCommand?: string;
  /** Resource type (e.g. pod, deployment) */
  resourceType?: string;
  /** Resource name */
  name?: string;
  /**
   * Kubernetes namespace
   * Default "default".
   */
  namespace?: string;
  /**
   * If true, run the command across all namespaces
   * Default false.
   */
  allNamespaces?: boolean;
  /** Output format (e.g. json, yaml, wide) */
  outputFormat?: "json" | "yaml" | "wide" | "name" | "custom";
  /** Command flags as key-value pairs */
  flags?: Record<string, unknown>;
  /** Additional command arguments */
  args?: string[];
  /**
   * Kubeconfig Context to use for the command (optional - defaults to null)
   * Default "".
   */
  context?: string;
}

/**
 * Execute any kubectl command with the provided arguments and flags
 *
 * The server says that this tool may destroy data.
 */
export function kubectlGeneric(args: KubectlGenericInput): Promise<ToolCallResult<unknown>>;

/**
 * Verify that the counterpart is still responsive and the connection is alive.
 *
 * Takes no arguments.
 *
 * The server says that this tool only reads.
 */
export function ping(args?: Record<string, never>): Promise<ToolCallResult<unknown>>;

/** Every tool by the server's own name. */
export const tools: {
  readonly "cleanup": typeof cleanup;
  readonly "kubectl_get": typeof kubectlGet;
  readonly "kubectl_describe": typeof kubectlDescribe;
  readonly "kubectl_apply": typeof kubectlApply;
  readonly "kubectl_delete": typeof kubectlDelete;
  readonly "kubectl_create": typeof kubectlCreate;
  readonly "kubectl_logs": typeof kubectlLogs;
  readonly "kubectl_scale": typeof kubectlScale;
  readonly "kubectl_patch": typeof kubectlPatch;
  readonly "kubectl_rollout": typeof kubectlRollout;
  readonly "kubectl_context": typeof kubectlContext;
  readonly "kubectl_reconnect": typeof kubectlReconnect;
  readonly "explain_resource": typeof explainResource;
  readonly "install_helm_chart": typeof installHelmChart;
  readonly "upgrade_helm_chart": typeof upgradeHelmChart;
  readonly "uninstall_helm_chart": typeof uninstallHelmChart;
  readonly "node_management": typeof nodeManagement;
  readonly "port_forward": typeof portForward;
  readonly "stop_port_forward": typeof stopPortForward;
  readonly "exec_in_pod": typeof execInPod;
  readonly "list_api_resources": typeof listApiResources;
  readonly "kubectl_generic": typeof kubectlGeneric;
  readonly "ping": typeof ping;
};
