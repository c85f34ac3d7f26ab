"""What CloudFormation does with a deployer's permissions to create, read, update and delete resources."""

ACCOUNT = "us-east-1:000000000000"
REST_API = "arn:aws:apigateway:us-east-1::/restapis"
FUNCTION = f"arn:aws:lambda:{ACCOUNT}:function:sluice-ListShares-1AB"
LOGS = f"arn:aws:logs:{ACCOUNT}:log-group:/aws/lambda/sluice-ListShares"
ROLE = "arn:aws:iam::000000000000:role/sluice-ListSharesRole-1AB"
TABLE_ARN = f"arn:aws:dynamodb:{ACCOUNT}:table/sluice-CatalogTable-1AB"
WEB_ACL = f"arn:aws:wafv2:{ACCOUNT}:regional/webacl/AddressLimit-1AB/1"
ROLE_ACTIONS = (
    "CreateRole DeleteRole GetRole UpdateAssumeRolePolicy PutRolePolicy DeleteRolePolicy GetRolePolicy TagRole"
)
METHODS = "GET POST PUT PATCH DELETE"

# Services, actions and resources by resource type. Actions with a condition, such as iam:PassRole, are not in this
# table, because the simulation has no conditions.
NEEDED: dict[str, list[tuple[str, str, str]]] = {
    "AWS::Serverless::Function": [
        (
            "lambda",
            "CreateFunction DeleteFunction GetFunction UpdateFunctionCode UpdateFunctionConfiguration",
            FUNCTION,
        ),
        ("lambda", "AddPermission RemovePermission GetPolicy TagResource ListTags", FUNCTION),
        ("s3", "GetObject PutObject", "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-1ab/sluice/1"),
    ],
    "AWS::Lambda::Function": [
        (
            "lambda",
            "CreateFunction DeleteFunction GetFunction UpdateFunctionCode UpdateFunctionConfiguration",
            FUNCTION,
        ),
        ("s3", "GetObject PutObject", "arn:aws:s3:::my-artifacts/sluice/0123456789ab/sluice.zip"),
    ],
    "AWS::Lambda::EventSourceMapping": [
        ("lambda", "GetEventSourceMapping", f"arn:aws:lambda:{ACCOUNT}:event-source-mapping:1"),
    ],
    "AWS::Serverless::Api": [
        ("apigateway", METHODS, f"{REST_API}/1"),
        ("apigateway", METHODS, f"{REST_API}/1/stages/delta-sharing"),
        ("apigateway", "POST", REST_API),
    ],
    "AWS::ApiGateway::ApiKey": [
        ("apigateway", "POST", "arn:aws:apigateway:us-east-1::/apikeys"),
        ("apigateway", "GET PATCH DELETE", "arn:aws:apigateway:us-east-1::/apikeys/1"),
    ],
    "AWS::ApiGateway::Account": [("apigateway", "GET PATCH", "arn:aws:apigateway:us-east-1::/account")],
    "AWS::ApiGateway::DomainName": [
        ("apigateway", "POST", "arn:aws:apigateway:us-east-1::/domainnames"),
        ("apigateway", "GET PATCH DELETE", "arn:aws:apigateway:us-east-1::/domainnames/example.com"),
    ],
    "AWS::ApiGateway::BasePathMapping": [
        ("apigateway", METHODS, "arn:aws:apigateway:us-east-1::/domainnames/example.com/basepathmappings/1"),
    ],
    "AWS::WAFv2::WebACL": [("wafv2", "CreateWebACL GetWebACL UpdateWebACL DeleteWebACL", WEB_ACL)],
    "AWS::WAFv2::WebACLAssociation": [
        ("wafv2", "AssociateWebACL", WEB_ACL),
        ("wafv2", "AssociateWebACL DisassociateWebACL GetWebACLForResource", f"{REST_API}/1/stages/delta-sharing"),
        ("apigateway", "SetWebACL", f"{REST_API}/1/stages/delta-sharing"),
    ],
    "AWS::IAM::Role": [("iam", ROLE_ACTIONS, ROLE)],
    "AWS::IAM::Policy": [("iam", "PutRolePolicy GetRolePolicy DeleteRolePolicy", ROLE)],
    "AWS::DynamoDB::Table": [
        ("dynamodb", "CreateTable DeleteTable UpdateTable DescribeTable UpdateTimeToLive", TABLE_ARN),
        ("dynamodb", "UpdateContinuousBackups DescribeContinuousBackups DescribeTimeToLive TagResource", TABLE_ARN),
    ],
    "AWS::Logs::LogGroup": [
        ("logs", "CreateLogGroup DeleteLogGroup PutRetentionPolicy TagResource ListTagsForResource", LOGS),
        ("logs", "CreateLogGroup", f"arn:aws:logs:{ACCOUNT}:log-group:/aws/apigateway/sluice"),
        ("logs", "CreateLogGroup", f"arn:aws:logs:{ACCOUNT}:log-group:/aws/emr-serverless/sluice-index"),
        ("logs", "DescribeLogGroups", "*"),
    ],
    "AWS::Logs::MetricFilter": [("logs", "PutMetricFilter DeleteMetricFilter DescribeMetricFilters", LOGS)],
    "AWS::CloudWatch::Alarm": [
        ("cloudwatch", "PutMetricAlarm DeleteAlarms", f"arn:aws:cloudwatch:{ACCOUNT}:alarm:sluice-ServerErrors-1AB"),
        ("cloudwatch", "DescribeAlarms", "*"),
    ],
    "AWS::CloudWatch::Dashboard": [
        (
            "cloudwatch",
            "PutDashboard GetDashboard DeleteDashboards",
            "arn:aws:cloudwatch::000000000000:dashboard/sluice-us-east-1",
        ),
    ],
    "AWS::EMRServerless::Application": [
        ("emr-serverless", "CreateApplication", f"arn:aws:emr-serverless:{ACCOUNT}:/*"),
        (
            "emr-serverless",
            "GetApplication UpdateApplication DeleteApplication StopApplication",
            f"arn:aws:emr-serverless:{ACCOUNT}:/applications/1",
        ),
    ],
    "AWS::SQS::Queue": [
        (
            "sqs",
            "CreateQueue DeleteQueue GetQueueAttributes SetQueueAttributes",
            f"arn:aws:sqs:{ACCOUNT}:sluice-index-Queue-1AB",
        ),
    ],
    "AWS::SQS::QueuePolicy": [("sqs", "SetQueueAttributes", f"arn:aws:sqs:{ACCOUNT}:sluice-index-Queue-1AB")],
    "AWS::Events::Rule": [
        (
            "events",
            "PutRule DeleteRule DescribeRule PutTargets RemoveTargets",
            f"arn:aws:events:{ACCOUNT}:rule/sluice-index-FailedRuns-1AB",
        ),
    ],
    "AWS::Scheduler::Schedule": [
        (
            "scheduler",
            "CreateSchedule GetSchedule UpdateSchedule DeleteSchedule",
            f"arn:aws:scheduler:{ACCOUNT}:schedule/default/sluice-index-AllTables-1AB",
        ),
    ],
}
